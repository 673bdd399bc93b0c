package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/spillway-dev/spillway/internal/table"
)

const headerRequestID = "X-Request-Id"

// hopByHop headers belong to one connection. They go neither way.
var hopByHop = set("Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Content-Length", "Content-Encoding", "Http2-Settings")

// credentials go neither way: a caller's are not a backend's business, and what a backend says in such a header is of its
// own account or session.
var credentials = set("Ocp-Apim-Subscription-Key", "Cf-Access-Client-Id", "Cf-Access-Jwt-Assertion",
	"Cookie", "Cookie2", "Set-Cookie", "Set-Cookie2")

// credentialSuffixes are how the names of most credentials end, each of some vendor or gateway.
var credentialSuffixes = [...]string{"-Api-Key", "apikey", "-Access-Key", "-Secret-Key", "-Auth-Key", "-Auth", "authorization",
	"-Token", "-Secret", "-Password"}

// notToBackends stay here: what the framing of the new request settles, what is true of the caller's bytes alone (the model in them
// changes), what tells about the caller's network or browser, what would turn it into another request, and what is addressed to
// this proxy.
var notToBackends = set("Openai-Organization", "Openai-Project", "Accept-Encoding", "Host", "User-Agent",
	"Digest", "Content-Digest", "Repr-Digest", "Content-Md5", "Via", "Forwarded",
	"X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Client-Ip", "Origin", "Referer",
	"X-Original-Url", "X-Rewrite-Url", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override",
	headerHint, headerDeadline, headerTimeout, headerRequestID)

// notToCallers stay here: what speaks of our account at a backend, of its connection or its place, what is true of its bytes
// alone, and what this proxy says itself.
var notToCallers = set("Location", "Content-Location", "Refresh", "Etag", "Digest", "Content-Digest", "Repr-Digest", "Content-Md5",
	"Content-Range", "Accept-Ranges", "Www-Authenticate", "Server", "Via", "Alt-Svc", "Strict-Transport-Security", "Date",
	"Retry-After", "Retry-After-Ms", "X-Should-Retry", "Openai-Organization", "Openai-Project", "Anthropic-Organization-Id", "X-Sendfile",
	"Ratelimit", "Cache-Control", "Content-Type", headerRequestID)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// toBackend copies what a backend may see of the caller's header, then adds what is the backend's own. The values are
// shared with the caller's header and must not be changed.
func (x *exchange) toBackend(b *table.Backend) http.Header {
	from := x.r.Header
	to := make(http.Header, len(from)+len(b.Headers)+4)
	nominated := from["Connection"]
	for name, values := range from {
		if hopByHop[name] || isSecretName(name) || notToBackends[name] || addressedToProxies(name) || nominates(nominated, name) ||
			x.isCredential(name) {
			continue
		}
		to[name] = values
	}
	if !isJSON(to.Get("Content-Type")) { // the body is JSON, or there would be no attempt; curl -d calls it a form
		to["Content-Type"] = []string{"application/json"}
	}
	to["User-Agent"] = x.p.userAgent
	to[headerRequestID] = []string{x.log.RequestID}
	addOwn(to, b)
	return to
}

// isJSON says whether a content type is one of JSON, whatever its parameters.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	media = strings.TrimSpace(media)
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// addOwn adds the backend's declared headers and its credential, in place of what stands there.
func addOwn(to http.Header, b *table.Backend) {
	for _, h := range b.Headers {
		to[textproto.CanonicalMIMEHeaderKey(h.Name)] = []string{h.Value}
	}
	if b.Credential != nil {
		to[textproto.CanonicalMIMEHeaderKey(b.Credential.Header)] = []string{b.Credential.Value}
	}
}

// isCredential says whether a backend of the chain takes its credential in this header: then what the caller sends in it
// is one too.
func (x *exchange) isCredential(name string) bool {
	for i := range x.route.Chain {
		if c := x.route.Chain[i].Credential; c != nil && strings.EqualFold(c.Header, name) {
			return true
		}
	}
	return false
}

func addressedToProxies(name string) bool {
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Spillway-") || strings.HasPrefix(name, "Sec-") ||
		strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Access-Control-")
}

// nominates says whether a Connection header makes name a header of the connection.
func nominates(connection []string, name string) bool {
	for _, line := range connection {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}

// toCaller copies what a caller may see of a backend's header.
func toCaller(to, from http.Header, b *table.Backend) {
	nominated := from["Connection"]
	for name, values := range from {
		if hopByHop[name] || isSecretName(name) || notToCallers[name] || nominates(nominated, name) || isOwnName(name) ||
			b.Credential != nil && strings.EqualFold(b.Credential.Header, name) {
			continue
		}
		to[name] = values
	}
}

// isSecretName says whether a header carries a credential, by its name.
func isSecretName(name string) bool {
	if credentials[name] {
		return true
	}
	for _, end := range credentialSuffixes {
		if at := len(name) - len(end); at >= 0 && strings.EqualFold(name[at:], end) || strings.EqualFold(name, strings.TrimPrefix(end, "-")) {
			return true
		}
	}
	return false
}

// ownPrefixes begin the names of headers that only this proxy may set: its decisions, its rate limit (a backend's is that of our account there),
// which pages may read its answers, and what a web server in front of it is to do.
var ownPrefixes = [...]string{"X-Spillway-", "X-Ratelimit-", "Ratelimit-", "Anthropic-Ratelimit-", "Access-Control-", "X-Accel-", "Proxy-"}

func isOwnName(name string) bool {
	for _, prefix := range ownPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isValidID says whether a caller's request id can be passed on and logged as it is.
func isValidID(id string) bool {
	const longest = 128
	if id == "" || len(id) > longest {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.:/+=@", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// newID returns 128 random bits. They tell requests apart and guard nothing.
func newID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return hex.EncodeToString(b[:])
}
