package controller

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestSalt(t *testing.T) {
	long, short := bytes.Repeat([]byte("s"), saltBytes), bytes.Repeat([]byte("s"), saltBytes-1)
	owned := []metav1.OwnerReference{{UID: "deployment-1"}}
	stored := func(data []byte, owners []metav1.OwnerReference) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: SaltSecretName, OwnerReferences: owners}, Data: map[string][]byte{SaltKey: data},
		}
	}
	cases := map[string]struct {
		stored     *corev1.Secret
		inUse      []byte
		fail       map[string]error
		want       []byte // nil with no error: a new one
		wantErr    string // part of it
		wantWrites []string
	}{
		"is made where there is none":                        {wantWrites: []string{"create " + SaltSecretName}},
		"that is in use is put back":                         {inUse: long, want: long, wantWrites: []string{"create " + SaltSecretName}},
		"that is stored is read":                             {stored: stored(long, owned), want: long},
		"that is stored beats the one in use":                {stored: stored(long, owned), inUse: bytes.Repeat([]byte("x"), saltBytes), want: long},
		"gets its owner":                                     {stored: stored(long, nil), want: long, wantWrites: []string{"patch " + SaltSecretName}},
		"is used without its owner where that is refused":    {stored: stored(long, nil), fail: map[string]error{"patch": errors.New("refused")}, want: long},
		"that is too short is an error that says what to do": {stored: stored(short, owned), wantErr: "restore it"},
		"that cannot be read is an error":                    {stored: stored(long, owned), fail: map[string]error{"get": errors.New("no answer")}, wantErr: "read secret"},
		"that cannot be made is an error":                    {fail: map[string]error{"create": errors.New("no answer")}, wantErr: "create secret"},
		"that somebody else was faster to make, and that is gone again, is an error": {
			fail: map[string]error{"create": apierrors.NewAlreadyExists(secrets, SaltSecretName)}, wantErr: "read secret",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSecretStore()
			if tc.stored != nil {
				s.stored[SaltSecretName] = tc.stored
			}
			if tc.fail != nil {
				s.fail = tc.fail
			}
			got, err := salt(t.Context(), s, s, s.owner(), tc.inUse)
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q in it", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.wantWrites, s.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if tc.wantErr != "" {
				return
			}
			if tc.want != nil && !bytes.Equal(got, tc.want) || len(got) < saltBytes || bytes.Count(got, got[:1]) == saltBytes && tc.want == nil {
				t.Errorf("salt %x, want %x", got, tc.want)
			}
			is := s.secret(SaltSecretName)
			if !bytes.Equal(is.Data[SaltKey], got) || len(is.OwnerReferences) != 1 && tc.fail == nil || is.Namespace != own {
				t.Errorf("stored is %+v", is)
			}
			if tc.stored == nil && (!ptr.Deref(is.Immutable, false) || len(is.Labels) != 2) {
				t.Errorf("made was %+v, want it immutable and labelled", is)
			}
		})
	}
}

func TestTwoSaltsAreNotAlike(t *testing.T) {
	made := func() []byte {
		s := newSecretStore()
		got, err := salt(t.Context(), s, s, s.owner(), nil)
		must(t, err)
		return got
	}
	if bytes.Equal(made(), made()) {
		t.Error("two salts are the same")
	}
}

func TestNothingIsMadeForADeploymentThatIsGone(t *testing.T) {
	s := newSecretStore()
	gone := s.owner()
	_, err := gone.references(t.Context())
	must(t, err)
	gone.gone = errOwnerGone
	if _, err := salt(t.Context(), s, s, gone, nil); !errors.Is(err, errOwnerGone) || len(s.writes) > 0 {
		t.Errorf("error %v after %q", err, s.writes)
	}
	p := newPublisher(s)
	p.compiled(routeTo("r0", "m"))
	p.owner = gone
	if err := p.publish(t.Context()); err == nil || len(s.writes) > 0 {
		t.Errorf("error %v after %q", err, s.writes)
	}
	if err := p.loadAll(t.Context()); !errors.Is(err, errOwnerGone) || p.loaded.Load() {
		t.Errorf("loaded with error %v", err)
	}
}
