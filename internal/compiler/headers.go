package compiler

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Bounds of the schema.
const (
	maxHeaders     = 16
	maxHeaderName  = 128
	maxHeaderValue = 4096
)

// refusedHeaders may not be set by a route: they belong to one connection, or frame the request.
var refusedHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
	"Accept-Encoding", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
}

// readHeaders reads the headers that are added to each request.
func readHeaders(b *backendDraft) {
	if len(b.spec.Headers) > maxHeaders {
		b.refuse(v1alpha1.ReasonInvalidSpec, "headers", fmt.Sprintf("The list of headers has more than %d entries.", maxHeaders))
		return
	}
	for i, h := range b.spec.Headers {
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		if fault := faultInAddedHeader(b, name, h.Value); fault != "" {
			b.refuse(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("headers[%d]", i), "The header "+fault+".")
			continue
		}
		b.out.Headers = append(b.out.Headers, table.Header{Name: name, Value: h.Value})
	}
}

func faultInAddedHeader(b *backendDraft, name, value string) string {
	sameName := func(h table.Header) bool { return h.Name == name }
	switch fault := faultInHeaderName(name); {
	case fault != "":
		return fault
	case name == authorization:
		return "must not be Authorization; use auth"
	case b.spec.Auth != nil && textproto.CanonicalMIMEHeaderKey(b.spec.Auth.Header) == name:
		return "is the one that auth sends; name it once"
	case slices.ContainsFunc(b.out.Headers, sameName):
		return "is named twice; upper and lower case are the same"
	case len(value) > maxHeaderValue:
		return fmt.Sprintf("has a value longer than %d bytes", maxHeaderValue)
	case strings.ContainsFunc(value, func(r rune) bool { return isControl(r) && r != '\t' }) || !utf8.ValidString(value):
		return "has a value with control characters"
	}
	return ""
}

// faultInHeaderName takes a canonical name.
func faultInHeaderName(name string) string {
	switch {
	case name == "":
		return "has no name"
	case len(name) > maxHeaderName || !isToken(name):
		return "must have a name of letters, digits and -_.!#$%&'*+^`|~"
	case slices.Contains(refusedHeaders, name):
		return "must not be one that belongs to the connection or frames the request"
	}
	return ""
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := rune(s[i]); !isAlphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c) {
			return false
		}
	}
	return true
}
