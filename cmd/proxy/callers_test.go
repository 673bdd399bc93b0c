package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUsageOfCallerAuth(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	standalone := func(args ...string) []string {
		return append([]string{"--manifests", dir, "--listen", "127.0.0.1:none"}, args...)
	}
	cluster := func(args ...string) []string { return append([]string{"--pod-name", "p"}, args...) }
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"off, it says so":                     {standalone(), 1, "callers are not authenticated"},
		"a kind that is none":                 {standalone("--caller-auth", "oidc"), 2, "give off, kubernetes or keys"},
		"tokens without a cluster":            {standalone("--caller-auth", "kubernetes"), 2, "give --caller-auth=keys"},
		"tokens outside of a pod":             {cluster("--caller-auth", "kubernetes"), 2, "this is not a pod"},
		"keys from nowhere":                   {standalone("--caller-auth", "keys"), 2, "needs one of"},
		"keys from two places":                {cluster("--caller-auth", "keys", "--caller-keys-secret", "a", "--caller-keys-dir", dir), 2, "needs one of"},
		"keys from a Secret without cluster":  {standalone("--caller-auth", "keys", "--caller-keys-secret", "a"), 2, "give --caller-keys-dir"},
		"keys from a Secret that is none":     {cluster("--caller-auth", "keys", "--caller-keys-secret", "A_B"), 2, "not the name of a Secret"},
		"keys from a folder that is not here": {standalone("--caller-auth", "keys", "--caller-keys-dir", dir+"/none"), 2, "--caller-keys-dir"},
		"keys, and nobody wants them":         {standalone("--caller-keys-dir", dir), 2, "are for --caller-auth=keys"},
		"an audience, and nobody asks":        {standalone("--caller-audience", "a, b"), 2, "is for --caller-auth=kubernetes"},
		"keys from a folder":                  {standalone("--caller-auth", "keys", "--caller-keys-dir", dir), 1, "count\":0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if code := run(t.Context(), tc.args, &out, &out); code != tc.code || !strings.Contains(out.String(), tc.want) {
				t.Errorf("exit code %d, want %d; said %q, want %q in it", code, tc.code, out.String(), tc.want)
			}
		})
	}
}

func TestKeysAreAskedForEverywhere(t *testing.T) {
	const key = "anns-key-0123456789"
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(fmt.Sprint(r.Header), key) {
			t.Error("the caller's key travels to the backend")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, whole)
	}))
	defer backend.Close()
	keys := t.TempDir()
	if err := os.WriteFile(filepath.Join(keys, "ann"), []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, _, _ := start(t, append(standaloneArgs(t, backend.URL), "--drain-delay", "0s", "--caller-auth", "keys", "--caller-keys-dir", keys)...)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	awaitReady(t, client, at)

	const call = `{"model":"ns/m","messages":[]}`
	cases := map[string]struct {
		method, path, body string
		header, value      string
		want               int
	}{
		"a call with a key":             {"POST", "/v1/chat/completions", call, "Authorization", "Bearer " + key, 200},
		"a call with an x-api-key":      {"POST", "/v1/chat/completions", call, "x-api-key", key, 200},
		"a call without":                {"POST", "/v1/chat/completions", call, "", "", 401},
		"a call with another":           {"POST", "/v1/messages", call, "x-api-key", "no-" + key, 401},
		"an unknown model is none here": {"POST", "/v1/embeddings", `{"model":"x"}`, "", "", 404},
		"the list with a key":           {"GET", "/v1/models", "", "Authorization", "Bearer " + key, 200},
		"the list without":              {"GET", "/v1/models", "", "", "", 401},
		"a model without":               {"GET", "/v1/models/ns/m", "", "", "", 401},
		"health without":                {"GET", "/healthz", "", "", "", 200},
		"readiness without":             {"GET", "/readyz/ns/m", "", "", "", 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+at.Data+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if tc.header != "" {
				req.Header.Set(tc.header, tc.value)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tc.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.want)
			}
		})
	}
}
