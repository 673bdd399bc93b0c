package proxy

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

const (
	modelsPath = "/v1/models"
	// modelPath is the template of one model's path, in spans.
	modelPath = modelsPath + "/{id}"
)

// modelStages returns the pipeline of a GET about models, which goes to no backend; nil for any other path.
func modelStages(path string) []stage {
	switch {
	case path == modelsPath:
		return []stage{listModels}
	case strings.HasPrefix(path, modelsPath+"/"):
		return []stage{showModel}
	}
	return nil
}

// listModels answers GET /v1/models with the logical names, those that the caller may use.
func listModels(x *exchange) *failure {
	t, f := x.table()
	if f != nil {
		return f
	}
	ids := t.Models()
	if x.p.cfg.Authorize != nil {
		if ids, f = x.usable(t, ids); f != nil {
			return f
		}
	}
	return x.answerLocally(openai.AppendModelList(nil, ids))
}

// showModel answers GET /v1/models/{id}. The id contains slashes, plain or escaped. Of a model that does not exist only
// those are told who are let in.
func showModel(x *exchange) *failure {
	t, f := x.table()
	if f != nil {
		return f
	}
	id := strings.TrimPrefix(x.r.URL.Path, modelsPath+"/")
	if route := t.ByModel(id); route != nil {
		x.found(route)
		if f := authorize(x); f != nil {
			return f
		}
		return x.answerLocally(openai.AppendModel(nil, id))
	}
	if x.p.cfg.Authorize != nil {
		if _, f := x.usable(t, nil); f != nil {
			return f
		}
	}
	return failed(unknownModel(id))
}

func unknownModel(id string) *openai.Error {
	return &openai.Error{Code: openai.CodeModelNotFound, Param: "model",
		Message: fmt.Sprintf("the model %s does not exist here; GET /v1/models lists those that do", quoteName(id))}
}

// usable returns those of the models that the caller may use.
func (x *exchange) usable(t *table.Table, ids []string) ([]string, *failure) {
	routes := make([]*table.Route, 0, len(ids))
	for _, id := range ids {
		routes = append(routes, t.ByModel(id))
	}
	usable, caller, refusal := x.p.cfg.Authorize.Usable(x.r.Context(), x.r.Header, routes)
	x.log.Caller = caller
	if refusal != nil {
		return nil, x.refused(refusal)
	}
	ids = make([]string, 0, len(usable))
	for _, route := range usable {
		ids = append(ids, route.Model)
	}
	return ids, nil
}

// answerLocally answers with what this proxy knows by itself.
func (x *exchange) answerLocally(body []byte) *failure {
	x.log.Code = http.StatusOK
	x.caller.answer(http.StatusOK, body)
	return nil
}
