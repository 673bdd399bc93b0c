package main

// Certificate authorities for backends that are reached by https, where the system has none: the image is FROM scratch. Where
// it has some, or SSL_CERT_FILE names a file, these do not count.
import _ "golang.org/x/crypto/x509roots/fallback"
