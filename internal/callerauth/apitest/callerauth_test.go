package apitest

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/internal/callerauth"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

const (
	mine   = sirens + "/default" // opened by config/samples/user.yaml, to the account bot
	hidden = sirens + "/hidden"
	others = "other/default"
	// aMinute is how long a verdict is used unasked.
	aMinute = time.Minute
)

// byToken opens a door for tokens.
func byToken(ctx context.Context, clk clock.Clock, audiences ...string) *door {
	GinkgoHelper()
	gate, err := callerauth.NewKubernetes(callerauth.KubernetesConfig{
		REST: as(tokenOf(ctx, system, proxyAccount)), Audiences: audiences, Clock: clk, Log: telemetry.NewLogger(&logs, everything),
	})
	Expect(err).NotTo(HaveOccurred())
	return open(gate)
}

var _ = Describe("Tokens", func() {
	It("open what their account may use, and nothing else", func(ctx SpecContext) {
		makeAccount(ctx, "bot")
		bot := tokenOf(ctx, sirens, "bot")
		d := byToken(ctx, nil)
		Expect(d.knock(ctx, mine, bot)).To(Equal("200"))
		Expect(d.knock(ctx, hidden, bot)).To(Equal("403 forbidden"))
		Expect(d.knock(ctx, others, bot)).To(Equal("403 forbidden"))
		Expect(d.call(ctx, "/v1/messages", mine, "X-Api-Key", bot)).To(Equal("200"))
		Expect(d.models(ctx, bot)).To(Equal([]string{mine}))
	})

	It("of a user of the namespace open all of it", func(ctx SpecContext) {
		makeAccount(ctx, "user")
		allow(ctx, "spillway-user", "user", false)
		user := tokenOf(ctx, sirens, "user")
		d := byToken(ctx, nil)
		Expect(d.models(ctx, user)).To(Equal([]string{mine, hidden}))
		Expect(d.knock(ctx, hidden, user)).To(Equal("200"))
		Expect(d.knock(ctx, others, user)).To(Equal("403 forbidden"))
	})

	It("of a user of the cluster open everything", func(ctx SpecContext) {
		makeAccount(ctx, "cluster-user")
		allow(ctx, "spillway-user", "cluster-user", true)
		user := tokenOf(ctx, sirens, "cluster-user")
		d := byToken(ctx, nil)
		Expect(d.models(ctx, user)).To(Equal([]string{others, mine, hidden}))
		Expect(d.knock(ctx, others, user)).To(Equal("200"))
	})

	It("that are none open nothing", func(ctx SpecContext) {
		makeAccount(ctx, "bot")
		bot := tokenOf(ctx, sirens, "bot")
		d := byToken(ctx, nil)
		forged := bot[:strings.LastIndex(bot, ".")+1] + "c2lnbmF0dXJl"
		for _, credential := range []string{"", "sk-0123456789", forged} {
			Expect(d.knock(ctx, mine, credential)).To(Equal("401 unauthenticated"))
			Expect(d.models(ctx, credential)).To(BeNil())
		}
	})

	It("are for one audience", func(ctx SpecContext) {
		makeAccount(ctx, "bot")
		general, special := tokenOf(ctx, sirens, "bot"), tokenOf(ctx, sirens, "bot", "spillway")
		d := byToken(ctx, nil)
		Expect(d.knock(ctx, mine, special)).To(Equal("401 unauthenticated"))
		d = byToken(ctx, nil, "spillway")
		Expect(d.knock(ctx, mine, special)).To(Equal("200"))
		Expect(d.knock(ctx, mine, general)).To(Equal("401 unauthenticated"))
	})

	It("lose what is revoked after a minute", func(ctx SpecContext) {
		account := makeAccount(ctx, "leaver")
		binding := allow(ctx, "spillway-user", "leaver", false)
		token := tokenOf(ctx, sirens, "leaver")
		now := clocktesting.NewFakeClock(time.Now())
		d := byToken(ctx, now)
		Expect(d.knock(ctx, hidden, token)).To(Equal("200"))
		Expect(admin.Delete(ctx, binding)).To(Succeed())
		Expect(d.knock(ctx, hidden, token)).To(Equal("200"))
		// The API server too takes a moment to see it, so each look is a minute later.
		later := func() string {
			now.Step(aMinute)
			return d.knock(ctx, hidden, token)
		}
		Eventually(later).WithPolling(time.Second).Should(Equal("403 forbidden"))
		Expect(admin.Delete(ctx, account)).To(Succeed())
		Eventually(later).WithPolling(time.Second).Should(Equal("401 unauthenticated"))
	})
})

var _ = Describe("The proxy's account", func() {
	It("has no other permission for it than the two reviews and one Secret", func(ctx SpecContext) {
		for want, asks := range map[bool][]authorizationv1.ResourceAttributes{
			true: {
				{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"},
				{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
				{Verb: "watch", Resource: "secrets", Namespace: system, Name: "spillway-caller-keys"},
			},
			false: {
				{Verb: "get", Resource: "secrets", Namespace: system, Name: "spillway-salt"},
				{Verb: "list", Resource: "secrets", Namespace: system},
				{Verb: "get", Resource: "secrets", Namespace: sirens, Name: "spillway-caller-keys"},
				{Verb: "use", Group: "spillway.dev", Resource: "llmroutes", Namespace: sirens},
				{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: sirens},
			},
		} {
			for _, ask := range asks {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + system + ":" + proxyAccount, ResourceAttributes: &ask}}
				Expect(admin.Create(ctx, review)).To(Succeed())
				Expect(review.Status.Allowed).To(Equal(want), "%+v", ask)
			}
		}
	})

	It("without the role lets nobody in, and says what is missing", func(ctx SpecContext) {
		makeAccount(ctx, "bot")
		makeAccount(ctx, "powerless")
		gate, err := callerauth.NewKubernetes(callerauth.KubernetesConfig{
			REST: as(tokenOf(ctx, sirens, "powerless")), Log: telemetry.NewLogger(&logs, everything),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(open(gate).knock(ctx, mine, tokenOf(ctx, sirens, "bot"))).To(Equal("503 model_unavailable"))
		Expect(logs.String()).To(ContainSubstring("bind the ClusterRole spillway-proxy-auth"))
	})
})

var _ = Describe("An outage of the API server", Serial, func() {
	It("stops no caller that is known, and no key", func(ctx SpecContext) {
		makeAccount(ctx, "bot")
		bot, late := tokenOf(ctx, sirens, "bot"), tokenOf(ctx, sirens, "bot")
		writeKeys(ctx, map[string]string{"ann": annsKey})
		now := clocktesting.NewFakeClock(time.Now())
		d, keys := byToken(ctx, now), byKey(ctx)
		Expect(d.knock(ctx, mine, bot)).To(Equal("200"))
		Eventually(func() string { return keys.knock(ctx, hidden, annsKey) }).Should(Equal("200"))

		apiServer := environment.ControlPlane.GetAPIServer()
		Expect(apiServer.Stop()).To(Succeed())
		now.Step(aMinute)
		Expect(d.knock(ctx, mine, bot)).To(Equal("200"))
		Expect(d.knock(ctx, mine, late)).To(Equal("503 model_unavailable"))
		Expect(keys.knock(ctx, hidden, annsKey)).To(Equal("200"))
		now.Step(2 * time.Hour)
		Expect(d.knock(ctx, mine, bot)).To(Equal("401 unauthenticated")) // its own end has come

		Expect(apiServer.Start()).To(Succeed())
		fresh := tokenOf(ctx, sirens, "bot")
		now.SetTime(time.Now())
		Eventually(func() string { return d.knock(ctx, mine, fresh) }).Should(Equal("200"))
		writeKeys(ctx, map[string]string{"bob": bobsKey})
		Eventually(func() string { return keys.knock(ctx, hidden, bobsKey) }).Should(Equal("200"))
		Expect(keys.knock(ctx, hidden, annsKey)).To(Equal("401 unauthenticated"))
	})
})

const (
	keysSecret = "spillway-caller-keys"
	annsKey    = "anns-key-0123456789"
	bobsKey    = "bobs-key-0123456789"
)

// byKey opens a door for keys.
func byKey(ctx context.Context) *door {
	GinkgoHelper()
	return open(secretKeys(ctx))
}

func secretKeys(ctx context.Context) *callerauth.Keys {
	GinkgoHelper()
	keys, err := callerauth.KeysFromSecret(callerauth.SecretConfig{
		REST: as(tokenOf(ctx, system, proxyAccount)), Namespace: system, Name: keysSecret, Log: telemetry.NewLogger(&logs, everything),
	})
	Expect(err).NotTo(HaveOccurred())
	return keys
}

// writeKeys makes the Secret anew where it exists. It goes with the test.
func writeKeys(ctx context.Context, keys map[string]string) {
	GinkgoHelper()
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: keysSecret}, StringData: keys}
	ctx = unlogged(ctx)
	if err := admin.Create(ctx, object); err == nil {
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(admin.Delete(unlogged(ctx), object))).To(Succeed())
		})
		return
	}
	object.Data, object.StringData = map[string][]byte{}, nil
	for name, key := range keys {
		object.Data[name] = []byte(key)
	}
	Expect(admin.Update(ctx, object)).To(Succeed())
}

var _ = Describe("Keys of a Secret", func() {
	It("are awaited, followed, and gone with it", func(ctx SpecContext) {
		gate := secretKeys(ctx)
		d := open(gate)
		Expect(d.knock(ctx, hidden, annsKey)).To(Equal("503 model_unavailable"))
		Expect(gate.Ready()).To(MatchError(ContainSubstring(keysSecret)))

		writeKeys(ctx, map[string]string{"ann": annsKey + "\n", "bob": bobsKey, "eve": "short"})
		Eventually(gate.Ready).Should(Succeed())
		Expect(d.knock(ctx, hidden, annsKey)).To(Equal("200"))
		Expect(d.call(ctx, "/v1/messages", hidden, "X-Api-Key", bobsKey)).To(Equal("200"))
		Expect(d.knock(ctx, hidden, "short")).To(Equal("401 unauthenticated"))
		Expect(d.models(ctx, bobsKey)).To(Equal([]string{others, mine, hidden}))
		Expect(d.models(ctx, "")).To(BeNil())

		writeKeys(ctx, map[string]string{"ann": annsKey})
		Eventually(func() string { return d.knock(ctx, hidden, bobsKey) }).Should(Equal("401 unauthenticated"))
		Expect(d.knock(ctx, hidden, annsKey)).To(Equal("200"))

		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: keysSecret}}
		Expect(admin.Delete(unlogged(ctx), secret)).To(Succeed())
		Eventually(func() string { return d.knock(ctx, hidden, annsKey) }).Should(Equal("401 unauthenticated"))
		Expect(gate.Ready()).To(Succeed())
	})
})

// ReportAfterSuite would come too late to fail, so this is the last word of the suite.
var _ = AfterSuite(func() {
	written := logs.String()
	Expect(written).To(ContainSubstring(`"route":"sirens-echo/default"`))
	for what, secret := range map[string]string{
		"a token":  "eyJ", // the beginning of every signed token
		"a key":    "-key-0123",
		"a prompt": "France",
	} {
		Expect(written).NotTo(ContainSubstring(secret), "the logs hold %s", what)
	}
})
