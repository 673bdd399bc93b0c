// Package sdk shows that the SDKs which callers use read what the proxy writes: the same text, tool calls and exceptions
// as from a backend, with heartbeats between the events, with failovers, and with errors in every place.
//
// Its place in the flow: a suite of its own (make test-sdk) over the real proxy program in standalone mode. The clients
// are programs: node/ holds those of npm, openaigo/ one that is built with two versions of openai-go. Each runs every
// scenario of its dialect twice, at the scripted backend directly and through the proxy, and the two results are
// compared. Between client and proxy stands a tap that counts the heartbeats, so that a scripted backend waits for the
// beats themselves, never for a time. One client goes by TLS and HTTP/2, to a proxy of its own.
//
// The suite needs node 20 or newer and npm; packages are installed once, into the user's cache folder.
package sdk
