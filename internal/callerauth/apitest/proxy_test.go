package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// gate is what Kubernetes and Keys have in common.
type gate interface {
	proxy.Authorizer
	Run(ctx context.Context) error
	Ready() error
}

// door is a pipeline behind a gate, with one backend that answers all.
type door struct {
	url    string
	client *http.Client
}

func open(g gate) *door {
	GinkgoHelper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/messages") {
			fmt.Fprint(w, `{"id":"1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Paris"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
			return
		}
		fmt.Fprint(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Paris"},"finish_reason":"stop"}]}`)
	}))
	DeferCleanup(backend.Close)
	store := table.NewStore()
	log := telemetry.NewLogger(&logs, everything)
	p := proxy.New(proxy.Config{
		Store: store, Breakers: breaker.New(breaker.Options{}), Admission: admission.New(admission.Options{}),
		Metrics: telemetry.NewProxy(prometheus.NewRegistry()), AccessLog: telemetry.NewAccessLog(&logs), Log: log,
		Authorize: g, AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	DeferCleanup(p.Close)
	store.Set(table.New([]*table.Route{
		route(sirens, "default", backend.URL), route(sirens, "hidden", backend.URL), route("other", "default", backend.URL),
	}))
	server := httptest.NewServer(p.Handler())
	DeferCleanup(server.Close)

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})
	client := &http.Client{Transport: &http.Transport{}}
	DeferCleanup(client.CloseIdleConnections)
	return &door{url: server.URL, client: client}
}

func route(namespace, name, url string) *table.Route {
	return &table.Route{
		Namespace: namespace, Name: name, Model: namespace + "/" + name, PreferHeader: table.PreferHonor, WhenAllOpen: table.AllOpenTry,
		Heartbeat: table.Heartbeat{CommitAfter: time.Minute, Form: table.HeartbeatLine}, ResponseModel: table.ModelPhysical,
		Timeouts: table.Timeouts{Connect: 5 * time.Second},
		Chain: []table.Backend{{
			ID: "0123456789abcdef", Name: "tower", BaseURL: url + "/v1", Model: "m", Probe: table.ProbeSynthetic,
			Failure:    table.Failure{Threshold: 5, Cooldown: time.Minute},
			Saturation: table.Saturation{Threshold: 2, Cooldown: time.Minute},
		}},
	}
}

// knock is a call's end: "200", or the status and the code that the caller is told.
func (d *door) knock(ctx context.Context, model, credential string) string {
	return d.call(ctx, "/v1/chat/completions", model, "Authorization", "Bearer "+credential)
}

func (d *door) call(ctx context.Context, path, model, header, value string) string {
	GinkgoHelper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"Capital of France?"}]}`, model)
	status, answer := d.send(ctx, http.MethodPost, path, strings.NewReader(body), header, value)
	if status == http.StatusOK {
		Expect(answer).To(ContainSubstring("Paris"))
		return "200"
	}
	var told struct{ Error struct{ Code string } }
	Expect(json.Unmarshal([]byte(answer), &told)).To(Succeed(), answer)
	return fmt.Sprintf("%d %s", status, told.Error.Code)
}

// models is the list that a caller sees; nil where it sees none.
func (d *door) models(ctx context.Context, credential string) []string {
	GinkgoHelper()
	status, answer := d.send(ctx, http.MethodGet, "/v1/models", nil, "Authorization", "Bearer "+credential)
	if status != http.StatusOK {
		return nil
	}
	var list struct{ Data []struct{ ID string } }
	Expect(json.Unmarshal([]byte(answer), &list)).To(Succeed(), answer)
	ids := []string{}
	for _, model := range list.Data {
		ids = append(ids, model.ID)
	}
	return ids
}

func (d *door) send(ctx context.Context, method, path string, body io.Reader, header, value string) (int, string) {
	GinkgoHelper()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, body)
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set(header, value)
	resp, err := d.client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	return resp.StatusCode, string(answer)
}
