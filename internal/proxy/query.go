package proxy

import (
	"net/url"
	"slices"
	"strings"
)

// secretWords are what the names of query parameters that carry a credential have in them, secretNames what they are.
var (
	secretWords = [...]string{"key", "token", "secret", "auth", "password", "passwd", "signature", "credential", "session", "jwt"}
	secretNames = [...]string{"sig", "code", "pass", "pwd", "sas"}
)

// mergedQuery is the query of a request to a backend: the backend's own, behind it what the caller's adds (such as
// api-version). Credentials stay here, and so does what only one of the two servers might read as something else.
func mergedQuery(own, callers string) string {
	if callers == "" {
		return own
	}
	var merged strings.Builder
	merged.WriteString(own)
	taken := names(own)
	for pair := range strings.SplitSeq(callers, "&") {
		if name, ok := parameter(pair); !ok || isSecret(name) || slices.Contains(taken, name) {
			continue
		}
		if merged.Len() > 0 {
			merged.WriteByte('&')
		}
		merged.WriteString(pair)
	}
	return merged.String()
}

// names are the parameters of a query, in lower case.
func names(query string) []string {
	var out []string
	for pair := range strings.SplitSeq(query, "&") {
		if name, ok := parameter(pair); ok {
			out = append(out, name)
		}
	}
	return out
}

// parameter returns a parameter's name, in lower case. It is not ok where that cannot be told for sure.
func parameter(pair string) (name string, ok bool) {
	if strings.ContainsFunc(pair, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' || r == ';' }) {
		return "", false
	}
	raw, value, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(raw)
	if err != nil || name == "" {
		return "", false
	}
	_, err = url.QueryUnescape(value)
	return strings.ToLower(name), err == nil
}

func isSecret(name string) bool {
	return slices.Contains(secretNames[:], name) ||
		slices.ContainsFunc(secretWords[:], func(word string) bool { return strings.Contains(name, word) })
}
