package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/openai"
)

// listModels answers GET /v1/models with the logical names.
func (p *Proxy) listModels(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, openai.AppendModelList(nil, p.cfg.Store.Load().Models()))
}

// showModel answers GET /v1/models/{id}. The id contains slashes, plain or escaped.
func (p *Proxy) showModel(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	if p.cfg.Store.Load().ByModel(id) == nil {
		p.refuse(w, r, informationEndpoint, &openai.Error{Code: openai.CodeModelNotFound, Param: "model",
			Message: fmt.Sprintf("the model %s does not exist here; GET /v1/models lists those that do", quoted(id))})
		return
	}
	writeJSON(w, openai.AppendModel(nil, id))
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // an error means that nobody is there
}

func (p *Proxy) ready(w http.ResponseWriter, _ *http.Request) {
	if err := p.cfg.Ready(); err != nil {
		say(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	say(w, http.StatusOK, "ok")
}

// routeReady answers /readyz/{namespace}/{name}: whether the route exists and has a usable backend by its configuration.
// Breakers have no part in it.
func (p *Proxy) routeReady(w http.ResponseWriter, r *http.Request) {
	route := p.cfg.Store.Load().ByKey(strings.TrimPrefix(r.URL.Path, "/readyz/"))
	switch {
	case route == nil:
		say(w, http.StatusNotFound, "no such route")
	case len(route.Chain) == 0:
		say(w, http.StatusServiceUnavailable, "no usable backend")
	default:
		say(w, http.StatusOK, "ok")
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // an error means that nobody is there
}
