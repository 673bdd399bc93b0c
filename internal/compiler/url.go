package compiler

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// defaultPath is the directory of a backend whose URL has no path.
const defaultPath = "/v1"

// endpoints are the ends of a path that show that somebody gave an endpoint where its directory is asked for.
var endpoints = []string{"/chat/completions", "/completions", "/embeddings", "/responses", "/messages", "/models"}

// parseBaseURL returns scheme, host and directory of a backend without a trailing slash, and the raw query. Where fault
// is not empty it is a clause that says what is wrong; it never quotes the URL.
func parseBaseURL(raw string) (base, query, fault string) {
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] > '~' {
			return "", "", "has spaces, control characters or letters outside of ASCII; percent-encode them"
		}
	}
	if strings.Contains(raw, "#") {
		return "", "", "must not have a fragment (#)"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", "", "is not a URL; an IPv6 address goes in brackets, such as http://[fd00::2]:8000/v1"
	}
	if fault := faultInURL(u); fault != "" {
		return "", "", fault
	}
	path, fault := normalPath(u.EscapedPath())
	if fault != "" {
		return "", "", fault
	}
	// Most are written as they come out, and then need no text of their own.
	origin := len(u.Scheme) + len("://") + len(u.Host)
	if end := origin + len(path); end <= len(raw) && raw[origin:end] == path && strings.ToLower(raw[:origin]) == raw[:origin] {
		return raw[:end], u.RawQuery, ""
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host) + path, u.RawQuery, ""
}

func faultInURL(u *url.URL) string {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://"
	case u.Hostname() == "":
		return "has no host"
	case u.Port() != "" && !validPort(u.Port()), strings.HasSuffix(u.Host, ":"):
		return "has a port that is not between 1 and 65535"
	case u.User != nil:
		return "must not carry a user or password; put the credential in a Secret and name it in auth.secretRef"
	}
	return ""
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// normalPath drops trailing slashes and fills in an empty path. It takes and returns an escaped path.
func normalPath(path string) (normal, fault string) {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return defaultPath, ""
	}
	for _, end := range endpoints {
		if strings.HasSuffix(path, end) {
			return "", "must end before the endpoint: leave out " + end
		}
	}
	if hasDotSegment(path) {
		return "", "must not have . or .. in its path"
	}
	return path, ""
}

// hasDotSegment says whether a server may read the path as another directory.
func hasDotSegment(escaped string) bool {
	if !strings.ContainsAny(escaped, ".%") {
		return false
	}
	plain := strings.ReplaceAll(strings.ToLower(escaped), "%2e", ".")
	return slices.ContainsFunc(strings.Split(plain, "/"), func(s string) bool { return s == "." || s == ".." })
}
