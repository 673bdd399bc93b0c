package callerauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/spillway-dev/spillway/internal/apiclient"
)

// reviews asks the API server.
type reviews struct {
	authentication, authorization rest.Interface
}

func newReviews(cfg *rest.Config) (r *reviews, closeIdle func(), err error) {
	hc, closeIdle, err := apiclient.NewHTTPClient(cfg, dialTimeout, nil)
	if err != nil {
		return nil, nil, err
	}
	r = &reviews{}
	if r.authentication, err = apiclient.NewREST(cfg, hc, scheme, reviewAPI(authenticationv1.SchemeGroupVersion)); err != nil {
		return nil, nil, err
	}
	if r.authorization, err = apiclient.NewREST(cfg, hc, scheme, reviewAPI(authorizationv1.SchemeGroupVersion)); err != nil {
		return nil, nil, err
	}
	return r, closeIdle, nil
}

func reviewAPI(version schema.GroupVersion) apiclient.API {
	return apiclient.API{Root: "/apis", Version: version, ContentType: runtime.ContentTypeJSON}
}

func (r *reviews) reviewToken(ctx context.Context, spec authenticationv1.TokenReviewSpec) (*authenticationv1.TokenReviewStatus, error) {
	var result authenticationv1.TokenReview
	// One try: who waits for an answer longer than that has an older one, or is told to come again.
	err := r.authentication.Post().Resource("tokenreviews").MaxRetries(0).
		Body(&authenticationv1.TokenReview{Spec: spec}).Do(silent(ctx)).Into(&result)
	return &result.Status, err
}

func (r *reviews) reviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	var result authorizationv1.SubjectAccessReview
	err := r.authorization.Post().Resource("subjectaccessreviews").MaxRetries(0).
		Body(&authorizationv1.SubjectAccessReview{Spec: spec}).Do(silent(ctx)).Into(&result)
	return result.Status.Allowed, err
}

// expiry reads a token's end: zero where it names none. It checks no signature: the API server does, and until it has, the
// end can only make a token useless. wellFormed is false for what cannot be a signed token, about which nobody need be
// asked.
func expiry(token string) (until time.Time, wellFormed bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[2] == "" {
		return time.Time{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expires *float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return time.Time{}, false
	}
	if claims.Expires == nil {
		return time.Time{}, true
	}
	return time.Unix(int64(min(max(*claims.Expires, 0), math.MaxUint32)), 0), true
}
