package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/internal/table"
)

// program is the proxy as it is deployed, as its own account and with what its roles allow.
type program struct {
	door
	admin string // URL of the admin port
}

// build makes the binary once for the suite.
func build() string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "proxy")
	cmd := exec.Command("go", "build", "-race", "-o", path, "./cmd/proxy")
	cmd.Dir = filepath.Join("..", "..", "..")
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return path
}

// run starts the binary and waits until it serves. All that it says goes into the logs, which are searched at the end.
func run(ctx context.Context, binary, pod string, args ...string) *program {
	GinkgoHelper()
	said := &buffer{}
	cmd := exec.Command(binary, append([]string{"--kubeconfig", kubeconfig(ctx), "--namespace", system, "--pod-name", pod, "--allow-cidr", "127.0.0.0/8",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain-delay", "0s", "--log-level", "DEBUG"}, args...)...)
	cmd.Stdout, cmd.Stderr = &logs, io.MultiWriter(&logs, said)
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(cmd.Wait()).To(Succeed())
	})
	listening := regexp.MustCompile(`"listening","data":"([^"]+)","admin":"([^"]+)"`)
	var at []string
	Eventually(func() []string { at = listening.FindStringSubmatch(said.String()); return at }).ShouldNot(BeNil())
	p := &program{door: door{url: "http://" + at[1], client: &http.Client{Transport: &http.Transport{}}}, admin: "http://" + at[2]}
	DeferCleanup(p.client.CloseIdleConnections)
	Eventually(func() int {
		status, _ := p.send(ctx, http.MethodGet, "/readyz", nil, "Accept", "*/*")
		return status
	}).Should(Equal(http.StatusOK), said.String)
	return p
}

// kubeconfig writes how the proxy's account reaches the API server.
func kubeconfig(ctx context.Context) string {
	GinkgoHelper()
	one := func(kind string, value any) []any { return []any{map[string]any{"name": "x", kind: value}} }
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": one("cluster", map[string]any{"server": environment.Config.Host, "certificate-authority-data": environment.Config.CAData}),
		"users":    one("user", map[string]any{"token": tokenOf(ctx, system, proxyAccount)}),
		"contexts": one("context", map[string]any{"cluster": "x", "user": "x"}),
	})
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	return path
}

// publish writes the table as the manager does. It goes with the test.
func publish(ctx context.Context, routes ...*table.Route) {
	GinkgoHelper()
	for index, shard := range table.New(routes).Split() {
		data, _, err := shard.Encode(nil)
		Expect(err).NotTo(HaveOccurred())
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: table.ShardName(index)},
			Type: table.ShardSecretType, Data: map[string][]byte{table.ShardKey: data}}
		Expect(admin.Create(unlogged(ctx), object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(admin.Delete(unlogged(ctx), object))).To(Succeed())
		})
	}
}

// refusal is what a caller is told that is not let in.
type refusal struct {
	status                   int
	authenticate, kind, code string
}

// refused asks as OpenAI's clients do, and expects OpenAI's envelope.
func (p *program) refused(ctx context.Context, model, credential string) refusal {
	GinkgoHelper()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Capital of France?"}]}`, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions", strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	resp, err := p.client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	var told struct {
		Error struct{ Message, Type, Code string }
	}
	Expect(json.Unmarshal(text, &told)).To(Succeed(), string(text))
	Expect(told.Error.Message).NotTo(BeEmpty())
	Expect(resp.Header.Get("X-Request-Id")).NotTo(BeEmpty())
	_, _ = logs.Write(text) // what callers are told is searched too
	return refusal{resp.StatusCode, resp.Header.Get("WWW-Authenticate"), told.Error.Type, told.Error.Code}
}

var _ = Describe("The program", Serial, func() {
	It("tells callers apart by tokens and by keys, also while the API server is away", func(ctx SpecContext) {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer GinkgoRecover()
			sent, _ := io.ReadAll(r.Body)
			Expect(fmt.Sprint(r.Header, string(sent))).NotTo(Or(ContainSubstring("eyJ"), ContainSubstring("-key-0123")), "a credential went on")
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Paris"},"finish_reason":"stop"}]}`)
		}))
		DeferCleanup(backend.Close)
		publish(ctx, route(sirens, "default", backend.URL), route(sirens, "hidden", backend.URL), route("other", "default", backend.URL))
		makeAccount(ctx, "bot")
		bot, late := tokenOf(ctx, sirens, "bot"), tokenOf(ctx, sirens, "bot")
		writeKeys(ctx, map[string]string{"ann": annsKey})
		binary := build()
		tokens := run(ctx, binary, "tokens", "--caller-auth=kubernetes")
		keys := run(ctx, binary, "keys", "--caller-auth=keys", "--caller-keys-secret", keysSecret)

		By("letting in who may, and telling the others why not")
		unknown := refusal{status: 401, authenticate: "Bearer", kind: "authentication_error", code: "unauthenticated"}
		for _, p := range []*program{tokens, keys} {
			Expect(p.refused(ctx, mine, "")).To(Equal(unknown))
			Expect(p.refused(ctx, mine, "sk-0123456789-0123456789")).To(Equal(unknown))
			Expect(p.models(ctx, "")).To(BeNil())
		}
		Expect(tokens.knock(ctx, mine, bot)).To(Equal("200"))
		Expect(tokens.refused(ctx, hidden, bot)).To(Equal(refusal{status: 403, kind: "permission_error", code: "forbidden"}))
		Expect(tokens.models(ctx, bot)).To(Equal([]string{mine}))
		Expect(keys.knock(ctx, hidden, annsKey)).To(Equal("200"))
		Expect(keys.models(ctx, annsKey)).To(Equal([]string{others, mine, hidden}))

		By("taking a new key, and no old one")
		writeKeys(ctx, map[string]string{"bob": bobsKey})
		Eventually(func() string { return keys.knock(ctx, mine, bobsKey) }).Should(Equal("200"))
		Expect(keys.refused(ctx, mine, annsKey)).To(Equal(unknown))

		By("keeping what it knows while the API server is away")
		apiServer := environment.ControlPlane.GetAPIServer()
		Expect(apiServer.Stop()).To(Succeed())
		Expect(tokens.knock(ctx, mine, bot)).To(Equal("200"))
		Expect(tokens.knock(ctx, mine, late)).To(Equal("503 model_unavailable"))
		Expect(keys.knock(ctx, mine, bobsKey)).To(Equal("200"))
		Expect(apiServer.Start()).To(Succeed())
		Eventually(func() string { return tokens.knock(ctx, mine, late) }).Should(Equal("200"))

		By("naming callers, and counting what is asked about models")
		Expect(logs.String()).To(And(ContainSubstring(`"caller":"system:serviceaccount:`+sirens+`:bot"`), ContainSubstring(`"caller":"bob"`)))
		for _, p := range []*program{tokens, keys} {
			metrics := p.metrics(ctx)
			Expect(metrics).To(ContainSubstring(`llm_requests_total{code="200",endpoint="models",logical_model=""} 1`))
			_, _ = logs.Write([]byte(metrics))
		}
	})
})

func (p *program) metrics(ctx context.Context) string {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin+"/metrics", nil)
	Expect(err).NotTo(HaveOccurred())
	resp, err := p.client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	return text.String()
}
