package callerauth

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"github.com/spillway-dev/spillway/internal/openai"
)

// maxCredential bounds a credential, in bytes. Tokens of ServiceAccounts have one or two thousand.
const maxCredential = 16 << 10

// fingerprint stands for a credential wherever one is remembered.
type fingerprint [sha256.Size]byte

func fingerprintOf(credential string) fingerprint { return sha256.Sum256([]byte(credential)) }

// credentialOf returns what the caller shows to be let in: the bearer token, else the x-api-key. Both work at every path,
// since /v1/models is one path for the clients of all dialects.
func credentialOf(h http.Header) (string, *openai.Error) {
	values := h["Authorization"]
	if len(values) > 1 || len(h["X-Api-Key"]) > 1 {
		return "", unauthenticated("the request shows more than one credential; send one")
	}
	credential := ""
	if len(values) == 1 {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
		if strings.EqualFold(scheme, "Bearer") {
			credential = strings.TrimSpace(rest)
		}
	}
	if credential == "" {
		credential = strings.TrimSpace(h.Get("X-Api-Key"))
	}
	switch {
	case credential == "":
		return "", unauthenticated("the request shows no credential; send one as Authorization: Bearer or as x-api-key")
	case len(credential) > maxCredential:
		return "", unauthenticated("the credential is too long")
	}
	return credential, nil
}

func unauthenticated(message string) *openai.Error {
	return &openai.Error{Code: openai.CodeUnauthenticated, Message: message}
}
