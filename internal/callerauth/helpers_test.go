package callerauth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// token is one as the API server makes them, for a user, with an end where it is not zero.
func token(user string, until time.Time) string {
	claims := fmt.Sprintf(`{"sub":%q}`, user)
	if !until.IsZero() {
		claims = fmt.Sprintf(`{"sub":%q,"exp":%d}`, user, until.Unix())
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(claims)) + "." + part([]byte("signature"))
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func route(namespace, name string) *table.Route {
	return &table.Route{Namespace: namespace, Name: name, Model: namespace + "/" + name}
}

// apiServer stands in for the API server. Its fields may be changed between questions.
type apiServer struct {
	mu        sync.Mutex
	users     map[string]string // token -> user
	allowed   []string          // "user namespace/name"
	audiences []string          // what it says a token was meant for
	err       error             // what it answers instead
	silent    bool              // it does not answer
	asked     []string
}

func (s *apiServer) set(change func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// questions returns what was asked since the last call.
func (s *apiServer) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *apiServer) take(ctx context.Context, question string) error {
	s.mu.Lock()
	s.asked = append(s.asked, question)
	err, silent := s.err, s.silent
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (s *apiServer) reviewToken(ctx context.Context, spec authenticationv1.TokenReviewSpec) (*authenticationv1.TokenReviewStatus, error) {
	if err := s.take(ctx, "token"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	user, ok := s.users[spec.Token]
	return &authenticationv1.TokenReviewStatus{
		Authenticated: ok, User: authenticationv1.UserInfo{Username: user}, Audiences: s.audiences,
	}, nil
}

func (s *apiServer) reviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	what := spec.User + " " + spec.ResourceAttributes.Namespace + "/" + spec.ResourceAttributes.Name
	if err := s.take(ctx, what); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.allowed, what), nil
}

var errUnreachable = errors.New("connection refused")

// newGate returns a Kubernetes in front of a stand-in; its log, and what ends it.
func newGate(t *testing.T, server *apiServer, audiences ...string) (k *Kubernetes, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	k = newKubernetes(&KubernetesConfig{
		Audiences: audiences, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 10})),
	}, server)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	return k, log
}

// codeOf is the code of a refusal; "" for none.
func codeOf(_ string, e *openai.Error) openai.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

func newClock() clock.Clock { return clock.RealClock{} }
