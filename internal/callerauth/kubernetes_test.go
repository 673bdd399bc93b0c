package callerauth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestAuthorize(t *testing.T) {
	good := token("ann", time.Time{})
	expired := token("ann", time.Unix(1, 0))
	cases := map[string]struct {
		header    http.Header
		audiences []string // that the proxy wants
		meant     []string // that the API server names
		want      openai.Code
		wantAsked []string
	}{
		"an account with the permission is let in":   {header: bearer(good), wantAsked: []string{"token", "ann ns/m"}},
		"the scheme may be written in any case":      {header: http.Header{"Authorization": {"bearer  " + good}}, wantAsked: []string{"token", "ann ns/m"}},
		"x-api-key is a credential too":              {header: http.Header{"X-Api-Key": {good}}, wantAsked: []string{"token", "ann ns/m"}},
		"x-api-key counts where another scheme is":   {header: http.Header{"Authorization": {"Basic eDp5"}, "X-Api-Key": {good}}, wantAsked: []string{"token", "ann ns/m"}},
		"the bearer token comes before x-api-key":    {header: http.Header{"Authorization": {"Bearer " + token("eve", time.Time{})}, "X-Api-Key": {good}}, want: openai.CodeUnauthenticated, wantAsked: []string{"token"}},
		"an account without it is forbidden":         {header: bearer(token("bob", time.Time{})), want: openai.CodeForbidden, wantAsked: []string{"token", "bob ns/m"}},
		"an unknown token is refused":                {header: bearer(token("eve", time.Time{})), want: openai.CodeUnauthenticated, wantAsked: []string{"token"}},
		"no credential, no question":                 {header: http.Header{}, want: openai.CodeUnauthenticated},
		"two bearers are none, whatever else":        {header: http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}, "X-Api-Key": {good}}, want: openai.CodeUnauthenticated},
		"two credentials are none":                   {header: http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, want: openai.CodeUnauthenticated},
		"what is no signed token is not asked about": {header: bearer("sk-0123456789"), want: openai.CodeUnauthenticated},
		"nor one whose claims are none":              {header: bearer("a.b!.c"), want: openai.CodeUnauthenticated},
		"nor one that has expired":                   {header: bearer(expired), want: openai.CodeUnauthenticated},
		"nor one that is too long":                   {header: bearer(good + strings.Repeat("x", maxCredential)), want: openai.CodeUnauthenticated},
		"a token for this audience is let in":        {header: bearer(good), audiences: []string{"llm", "spillway"}, meant: []string{"spillway"}, wantAsked: []string{"token", "ann ns/m"}},
		"one that names no audience is refused":      {header: bearer(good), audiences: []string{"spillway"}, want: openai.CodeUnauthenticated, wantAsked: []string{"token"}},
		"one for another audience is refused":        {header: bearer(good), audiences: []string{"spillway"}, meant: []string{"vault"}, want: openai.CodeUnauthenticated, wantAsked: []string{"token"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{
				users:   map[string]string{good: "ann", expired: "ann", token("bob", time.Time{}): "bob"},
				allowed: []string{"ann ns/m"}, audiences: tc.meant,
			}
			k, _ := newGate(t, server, tc.audiences...)
			got := codeOf(k.Authorize(t.Context(), tc.header, route("ns", "m")))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("code (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAsked, server.questions()); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
		})
	}
}

// life is a story told in a bubble of time: ann's calls, and what the API server does between them.
type life struct {
	*testing.T
	server *apiServer
	gate   *Kubernetes
}

func inLife(t *testing.T, until time.Duration, tell func(l *life, ann http.Header)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var end time.Time
		if until > 0 {
			end = time.Now().Add(until)
		}
		ann := token("ann", end)
		l := &life{T: t, server: &apiServer{users: map[string]string{ann: "ann"}, allowed: []string{"ann ns/m"}}}
		gate, log := newGate(t, l.server)
		l.gate = gate
		tell(l, bearer(ann))
		if strings.Contains(log.String(), ann) {
			t.Errorf("the log holds a token: %s", log)
		}
	})
}

// expects makes a call and compares its end and the questions it took.
func (l *life) expects(what string, h http.Header, want openai.Code, asked ...string) {
	l.Helper()
	if got := codeOf(l.gate.Authorize(l.Context(), h, route("ns", "m"))); got != want {
		l.Errorf("%s: code %q, want %q", what, got, want)
	}
	synctest.Wait()
	if diff := cmp.Diff(asked, l.server.questions()); diff != "" {
		l.Errorf("%s: questions (-want +got):\n%s", what, diff)
	}
}

func TestVerdictsAreUsedForAWhile(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("the first call", ann, "", "token", "ann ns/m")
		time.Sleep(freshFor - time.Nanosecond)
		l.expects("a call within the minute", ann, "")
		time.Sleep(time.Nanosecond)
		l.expects("a call after it", ann, "", "token", "ann ns/m")
	})
}

func TestRevokedPermissionEndsWithTheMinute(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("while she has it", ann, "", "token", "ann ns/m")
		l.server.set(func(s *apiServer) { s.allowed = nil })
		time.Sleep(freshFor)
		l.expects("when she has it no longer", ann, openai.CodeForbidden, "token", "ann ns/m")
		l.expects("at once after that", ann, openai.CodeForbidden)
		l.server.set(func(s *apiServer) { s.allowed = []string{"ann ns/m"} })
		time.Sleep(refusedFor)
		l.expects("when she has it again", ann, "", "ann ns/m")
	})
}

func TestRevokedTokenEndsWithTheMinute(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("while it is valid", ann, "", "token", "ann ns/m")
		l.server.set(func(s *apiServer) { s.users = nil })
		time.Sleep(freshFor)
		l.expects("when it is no longer", ann, openai.CodeUnauthenticated, "token")
		l.server.set(func(s *apiServer) { s.err = errUnreachable })
		time.Sleep(refusedFor)
		l.expects("when nobody can say", ann, openai.CodeModelUnavailable, "token")
	})
}

// What was said of one token and one route is said of no other.
func TestVerdictsAreForOneTokenAndOneRoute(t *testing.T) {
	ann, bob := token("ann", time.Time{}), token("bob", time.Time{})
	server := &apiServer{users: map[string]string{ann: "ann", bob: "bob"}, allowed: []string{"ann ab/c"}}
	k, _ := newGate(t, server)
	for _, tc := range []struct {
		token string
		route *table.Route
		want  openai.Code
	}{
		{ann, route("ab", "c"), ""},
		{bob, route("ab", "c"), openai.CodeForbidden},
		{ann, route("a", "bc"), openai.CodeForbidden},
		{ann, route("ab", "c"), ""},
	} {
		if got := codeOf(k.Authorize(t.Context(), bearer(tc.token), tc.route)); got != tc.want {
			t.Errorf("%s: code %q, want %q", tc.route.Key(), got, tc.want)
		}
	}
}

func TestCallerOfWhomNobodyCanSayIsNotLetIn(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("before", ann, "", "token", "ann ns/m")
		l.server.set(func(s *apiServer) { s.err = errUnreachable })
		caller, refusal := l.gate.Authorize(l.Context(), ann, route("ns", "another"))
		if got := codeOf(caller, refusal); got != openai.CodeModelUnavailable || refusal.RetryAfter != uncheckedRetry {
			t.Errorf("code %q, refusal %+v", got, refusal)
		}
		_, caller, refusal = l.gate.Usable(l.Context(), ann, []*table.Route{route("ns", "m"), route("ns", "another")})
		if got := codeOf(caller, refusal); got != openai.CodeModelUnavailable {
			t.Errorf("list: code %q", got)
		}
	})
}

func TestStrangersDoNotHoldUpACallerThatIsKnown(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("before", ann, "", "token", "ann ns/m")
		time.Sleep(freshFor)
		l.gate.strangers.SetBurst(0)
		l.expects("when it is asked for anew", ann, "", "token", "ann ns/m")
	})
}

// An authorizer may judge by everything that is known of an account.
func TestAccessSpec(t *testing.T) {
	user := &authenticationv1.UserInfo{Username: "ann", UID: "1", Groups: []string{"staff"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}}}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "ann", UID: "1", Groups: []string{"staff"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"p"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "use", Group: "spillway.dev", Resource: "llmroutes", Namespace: "ns", Name: "m"},
	}
	if diff := cmp.Diff(want, accessSpec(user, "ns", "m")); diff != "" {
		t.Errorf("question (-want +got):\n%s", diff)
	}
}

func TestVerdictsAreKeptWhileTheServerIsAway(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("before", ann, "", "token", "ann ns/m")
		l.server.set(func(s *apiServer) { s.err = errUnreachable })
		time.Sleep(freshFor)
		l.expects("during the outage", ann, "", "token", "ann ns/m")
		l.expects("the next call does not ask again", ann, "")
		time.Sleep(againAfter)
		l.expects("a later one does", ann, "", "token", "ann ns/m")
		l.expects("a stranger is told to come again", bearer(token("eve", time.Time{})), openai.CodeModelUnavailable, "token")
		time.Sleep(staleFor)
		l.expects("a day later nothing is known", ann, openai.CodeModelUnavailable, "token")
		l.server.set(func(s *apiServer) { s.err = nil })
		l.expects("after the outage", ann, "", "token", "ann ns/m")
	})
}

func TestSilentServerHoldsUpNoCallerThatIsKnown(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("before", ann, "", "token", "ann ns/m")
		l.server.set(func(s *apiServer) { s.silent = true })
		time.Sleep(freshFor)
		began := time.Now()
		l.expects("during the silence", ann, "", "token", "ann ns/m")
		if took := time.Since(began); took != 2*patience {
			l.Errorf("the call waited %s, want %s for each question", took, patience)
		}
		time.Sleep(askTimeout)
		began = time.Now()
		l.expects("after the questions have ended", ann, "")
		if took := time.Since(began); took != 0 {
			l.Errorf("the call waited %s, want none", took)
		}
		began = time.Now()
		l.expects("a stranger waits for the end of the question", bearer(token("eve", time.Time{})), openai.CodeModelUnavailable, "token")
		if took := time.Since(began); took != askTimeout {
			l.Errorf("the stranger waited %s, want %s", took, askTimeout)
		}
	})
}

func TestTokensEndWhenTheySay(t *testing.T) {
	inLife(t, freshFor/2, func(l *life, ann http.Header) {
		l.expects("before its end", ann, "", "token", "ann ns/m")
		l.server.set(func(s *apiServer) { s.err = errUnreachable })
		time.Sleep(freshFor / 2)
		l.expects("after it, though the server is away", ann, openai.CodeUnauthenticated)
	})
}

func TestCallsAtTheSameTimeAskOnce(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		const callers = 100
		var running sync.WaitGroup
		for range callers {
			running.Go(func() {
				if _, refusal := l.gate.Authorize(l.Context(), ann, route("ns", "m")); refusal != nil {
					l.Error(refusal)
				}
			})
		}
		running.Wait()
		if diff := cmp.Diff([]string{"token", "ann ns/m"}, l.server.questions()); diff != "" {
			l.Errorf("questions (-want +got):\n%s", diff)
		}
	})
}

func TestCallerThatLeavesTakesNoQuestionWithIt(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.server.set(func(s *apiServer) { s.silent = true })
		leaving, leave := context.WithCancel(l.Context())
		var first, second openai.Code
		var running sync.WaitGroup
		running.Go(func() { first = codeOf(l.gate.Authorize(leaving, ann, route("ns", "m"))) })
		synctest.Wait()
		running.Go(func() { second = codeOf(l.gate.Authorize(l.Context(), ann, route("ns", "m"))) })
		synctest.Wait()
		leave()
		running.Wait()
		if first != openai.CodeClientClosed || second != openai.CodeModelUnavailable {
			l.Errorf("the one that left: %s, the one that stayed: %s", first, second)
		}
		if diff := cmp.Diff([]string{"token"}, l.server.questions()); diff != "" {
			l.Errorf("questions (-want +got):\n%s", diff)
		}
	})
}

func TestEndOfTheProcessIsNoDeparture(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.server.set(func(s *apiServer) { s.silent = true })
		ctx, cancel := context.WithCancelCause(l.Context())
		cancel(errors.New("shutting down"))
		if got := codeOf(l.gate.Authorize(ctx, ann, route("ns", "m"))); got != openai.CodeModelUnavailable {
			l.Errorf("code %s", got)
		}
	})
}

func TestFloodOfInventedTokens(t *testing.T) {
	inLife(t, 0, func(l *life, ann http.Header) {
		l.expects("before", ann, "", "token", "ann ns/m")
		var running sync.WaitGroup
		for i := range 2 * maxTokens {
			h := bearer(token(strings.Repeat("x", i%100)+string(rune('a'+i%26))+time.Duration(i).String(), time.Time{}))
			running.Go(func() { l.gate.Authorize(l.Context(), h, route("ns", "m")) })
		}
		running.Wait()
		if asked := len(l.server.questions()); asked > strangersBurst+strangersPerSecond*int(askTimeout/time.Second)+1 {
			l.Errorf("%d questions reached the API server", asked)
		}
		l.expects("a known caller notices nothing", ann, "")
		time.Sleep(freshFor)
		l.expects("not even when it is asked for anew", ann, "", "token", "ann ns/m")
	})
}

func TestOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{err: errUnreachable}
		k, log := newGate(t, server)
		for range 3 {
			k.Authorize(t.Context(), bearer(token("ann", time.Time{})), route("ns", "m"))
		}
		server.set(func(s *apiServer) { s.err = nil })
		k.Authorize(t.Context(), bearer(token("ann", time.Time{})), route("ns", "m"))
		for _, want := range []string{"the API server does not answer", "the API server answers again"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log says %q %d times:\n%s", want, strings.Count(log.String(), want), log)
			}
		}
	})
}

func TestMemoIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10
		m := newMemo[int](limit, newClock())
		defer m.close()
		for i := range 5 * limit {
			ok := i%2 == 0
			_, err := m.get(t.Context(), string(rune('a'+i)), func(context.Context, bool) (answer[int], error) { return answer[int]{ok: ok}, nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(m.kept.Keys()) != limit || len(m.refused.Keys()) != limit || len(m.flights) != 0 {
			t.Errorf("kept %d, refused %d, on their way %d", len(m.kept.Keys()), len(m.refused.Keys()), len(m.flights))
		}
	})
}

func TestClosedMemoAsksNobody(t *testing.T) {
	m := newMemo[int](1, newClock())
	yes := func(context.Context, bool) (answer[int], error) { return answer[int]{value: 7, ok: true}, nil }
	if _, err := m.get(t.Context(), "known", yes); err != nil {
		t.Fatal(err)
	}
	m.close()
	if _, err := m.get(t.Context(), "a", nil); !errors.Is(err, errClosed) {
		t.Errorf("error %v", err)
	}
	if got, err := m.get(t.Context(), "known", nil); got.value != 7 || err != nil {
		t.Errorf("what is remembered is %d, error %v", got.value, err)
	}
}

func TestTheEndOfAMemoDoesNotWaitForTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemo[int](1, newClock())
		ended := make(chan error, 1)
		go func() {
			_, err := m.get(t.Context(), "a", func(ctx context.Context, _ bool) (answer[int], error) {
				<-ctx.Done()
				return answer[int]{}, ctx.Err()
			})
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		m.close()
		if took := time.Since(began); took != 0 || <-ended == nil {
			t.Errorf("it took %s", took)
		}
	})
}

func TestUsable(t *testing.T) {
	routes := []*table.Route{route("a", "x"), route("a", "y"), route("b", "x")}
	cases := map[string]struct {
		allowed   []string
		want      []string
		wantAsked int // beside the token
	}{
		"all routes by one permission":             {[]string{"ann /"}, []string{"a/x", "a/y", "b/x"}, 1},
		"a namespace by one, the others by theirs": {[]string{"ann a/", "ann b/x"}, []string{"a/x", "a/y", "b/x"}, 4},
		"single routes":                            {[]string{"ann a/y"}, []string{"a/y"}, 6},
		"none":                                     {nil, nil, 6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ann := token("ann", time.Time{})
			server := &apiServer{users: map[string]string{ann: "ann"}, allowed: tc.allowed}
			k, _ := newGate(t, server)
			for range 2 { // the second list asks nothing
				usable, caller, refusal := k.Usable(t.Context(), bearer(ann), routes)
				if refusal != nil || caller != "ann" {
					t.Fatal(caller, refusal)
				}
				var got []string
				for _, r := range usable {
					got = append(got, r.Key())
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("routes (-want +got):\n%s", diff)
				}
			}
			if asked := len(server.questions()); asked != tc.wantAsked+1 {
				t.Errorf("%d questions, want %d", asked, tc.wantAsked+1)
			}
		})
	}
}

func TestListAsksABoundedNumberOfQuestions(t *testing.T) {
	var routes []*table.Route
	for i := range 10 * maxListQuestions {
		routes = append(routes, route("a", time.Duration(i).String()))
	}
	ann := token("ann", time.Time{})
	server := &apiServer{users: map[string]string{ann: "ann"}}
	k, _ := newGate(t, server)
	if _, _, refusal := k.Usable(t.Context(), bearer(ann), routes); refusal != nil {
		t.Fatal(refusal)
	}
	if asked := len(server.questions()); asked != 1+maxListQuestions {
		t.Errorf("%d questions, want %d", asked, 1+maxListQuestions)
	}
}

func TestExpiry(t *testing.T) {
	cases := map[string]struct {
		token string
		until time.Time
		ok    bool
	}{
		"with an end":              {token("ann", time.Unix(1786658400, 0)), time.Unix(1786658400, 0), true},
		"without":                  {token("ann", time.Time{}), time.Time{}, true},
		"with a fraction":          {"e30.eyJleHAiOjEuNX0.c2ln", time.Unix(1, 0), true},
		"with an end before time":  {"e30.eyJleHAiOi0xZTMwMH0.c2ln", time.Unix(0, 0), true},
		"with an end after time":   {"e30.eyJleHAiOjFlMzAwfQ.c2ln", time.Unix(1<<32-1, 0), true},
		"with an end that is none": {"e30.eyJleHAiOiJ4In0.c2ln", time.Time{}, false},
		"unsigned":                 {"e30.e30.", time.Time{}, false},
		"two parts":                {"e30.e30", time.Time{}, false},
		"claims that are no JSON":  {"e30.eA.c2ln", time.Time{}, false},
		"nothing":                  {"", time.Time{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			until, ok := expiry(tc.token)
			if !until.Equal(tc.until) || ok != tc.ok {
				t.Errorf("expiry = %v, %v", until, ok)
			}
		})
	}
}
