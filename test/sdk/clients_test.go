package sdk

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The names of the clients.
const (
	openaiGo      = "openai-go"
	openaiGoOld   = "openai-go 3.7.0"
	openaiNode    = "openai"
	aiNode        = "ai"
	langchainNode = "langchain"
	anthropicNode = "anthropic"

	openaiGoResponses    = "openai-go by responses"
	openaiGoOldResponses = "openai-go 3.7.0 by responses"
	openaiNodeResponses  = "openai by responses"

	openaiGoCompletions    = "openai-go by completions"
	openaiGoOldCompletions = "openai-go 3.7.0 by completions"
	openaiNodeCompletions  = "openai by completions"

	openaiGoEmbeddings    = "openai-go by embeddings"
	openaiGoOldEmbeddings = "openai-go 3.7.0 by embeddings"
	openaiNodeEmbeddings  = "openai by embeddings"

	openaiGoHTTP2 = "openai-go over h2"
)

// client is one SDK.
type client struct {
	dialect *dialect
	// program of openaigo by its mod file, or script of node.
	modfile, script string
	// class names the exception for a status, inStream included.
	class func(status int) string
	// linesOnly marks a client that cannot read a comment with an empty line behind it.
	linesOnly bool
	// once marks a client that another one is beside with the same SDK and another dialect or protocol: one form of
	// heartbeats will do, and one request for each refusal.
	once bool
	// http2 marks a client that speaks to the proxy's TLS port, where HTTP/2 has to come of it.
	http2 bool
}

// What openai-go calls an error in a stream: its versions differ.
const (
	goStreamed    = "*ssestream.StreamError"
	goOldStreamed = "*errors.errorString"
)

var clients = map[string]client{
	openaiGo:               {dialect: chat, modfile: "go.mod", class: goClass(goStreamed)},
	openaiGoHTTP2:          {dialect: chat, modfile: "go.mod", class: goClass(goStreamed), http2: true, once: true},
	openaiGoCompletions:    {dialect: completions, modfile: "go.mod", class: goClass(goStreamed), once: true},
	openaiGoEmbeddings:     {dialect: embeddings, modfile: "go.mod", class: goClass(goStreamed)},
	openaiGoResponses:      {dialect: responses, modfile: "go.mod", class: goClass(goStreamed)},
	openaiGoOld:            {dialect: chat, modfile: "v3.7.0.mod", class: goClass(goOldStreamed), linesOnly: true},
	openaiGoOldCompletions: {dialect: completions, modfile: "v3.7.0.mod", class: goClass(goOldStreamed), linesOnly: true, once: true},
	openaiGoOldEmbeddings:  {dialect: embeddings, modfile: "v3.7.0.mod", class: goClass(goOldStreamed)},
	openaiGoOldResponses:   {dialect: responses, modfile: "v3.7.0.mod", class: goClass(goOldStreamed), linesOnly: true},
	openaiNode:             {dialect: chat, script: "openai.mjs", class: nodeClass},
	openaiNodeCompletions:  {dialect: completions, script: "completions.mjs", class: nodeClass, once: true},
	openaiNodeEmbeddings:   {dialect: embeddingsInBase64, script: "embeddings.mjs", class: nodeClass},
	openaiNodeResponses:    {dialect: responses, script: "responses.mjs", class: nodeClass},
	aiNode:                 {dialect: chat, script: "ai.mjs", class: aiClass},
	langchainNode:          {dialect: chat, script: "langchain.mjs", class: nodeClass},
	anthropicNode:          {dialect: messages, script: "anthropic.mjs", class: anthropicClass},
}

// clientsWhere names the clients for which is holds.
func clientsWhere(is func(name string, d *dialect) bool) []string {
	var names []string
	for name, c := range clients {
		if is(name, c.dialect) {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

func either(status int, answered, streamed string) string {
	if status == inStream {
		return streamed
	}
	return answered
}

func goClass(streamed string) func(int) string {
	return func(status int) string { return either(status, "*apierror.Error", streamed) }
}

// aiClass: in a stream, the AI SDK hands out the error as it stands in the event.
func aiClass(status int) string { return either(status, "AI_APICallError", "error part") }

// nodeClass is the exception of the SDKs for node that OpenAI and Anthropic publish.
func nodeClass(status int) string {
	classes := map[int]string{
		inStream:                       "APIError",
		http.StatusBadRequest:          "BadRequestError",
		http.StatusNotFound:            "NotFoundError",
		http.StatusConflict:            "ConflictError",
		http.StatusUnprocessableEntity: "UnprocessableEntityError",
		http.StatusTooManyRequests:     "RateLimitError",
	}
	if class, ok := classes[status]; ok {
		return class
	}
	return "InternalServerError"
}

func anthropicClass(status int) string {
	if status == http.StatusServiceUnavailable {
		return "ServiceUnavailableError"
	}
	return nodeClass(status)
}

// job is what a client is asked to do.
type job struct {
	ID      string `json:"id"`
	BaseURL string `json:"baseURL"` // without /v1
	Suffix  string `json:"suffix"`  // of the endpoint
	Model   string `json:"model"`
	Stream  bool   `json:"stream"`
	Tools   bool   `json:"tools"`
	Retries int    `json:"retries"`
	CA      string `json:"ca,omitempty"` // the certificate (PEM) to trust, where BaseURL is one of HTTPS
}

// result is what became of a job.
type result struct {
	ID        string      `json:"id"`
	Text      string      `json:"text"`
	Reasoning string      `json:"reasoning"`
	Tools     []toolCall  `json:"tools"`
	Vectors   [][]float32 `json:"vectors"`
	Finish    string      `json:"finish"`
	Model     string      `json:"model"`
	Tokens    int         `json:"tokens"`
	Error     *raised     `json:"error"`
}

type toolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// raised is an exception as the client's program tells it.
type raised struct {
	Class   string `json:"class"`
	Status  int    `json:"status"`
	Code    any    `json:"code"`
	Message string `json:"message"`
}

// commands returns how each client is started, by its name. What is missing is built or installed.
func commands(t *testing.T) map[string][]string {
	t.Helper()
	node := installed(t)
	programs := t.TempDir()
	for _, modfile := range []string{"go.mod", "v3.7.0.mod"} {
		command(t, "openaigo", "go", "build", "-modfile="+modfile, "-o", filepath.Join(programs, modfile+".program"), ".")
	}
	argv := map[string][]string{}
	for name, c := range clients {
		if c.script != "" {
			argv[name] = []string{"node", filepath.Join(node, c.script)}
			continue
		}
		argv[name] = []string{filepath.Join(programs, c.modfile+".program")}
	}
	return argv
}

// command runs a command in a folder to its end.
func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// installed returns a folder with the scripts of node/ and the packages that they need.
func installed(t *testing.T) string {
	t.Helper()
	needNode(t)
	packages := installPackages(t)
	dir := t.TempDir()
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("node/*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		copyFile(t, script, dir)
	}
	return dir
}

func needNode(t *testing.T) {
	t.Helper()
	const install = "test/sdk runs SDKs of node: install Node.js 20 or newer with npm (https://nodejs.org/en/download)"
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		t.Fatalf("%s; node: %v", install, err)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatalf("%s; %v", install, err)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 20 {
		t.Fatalf("%s; this is node %s", install, version)
	}
}

// installPackages installs the packages of node/package-lock.json once and returns their folder, which its hash names.
func installPackages(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	parent := filepath.Join(cache, "spillway", "sdk")
	home := filepath.Join(parent, fmt.Sprintf("%x", sha256.Sum256(lock))[:16])
	packages := filepath.Join(home, "node_modules")
	if _, err := os.Stat(packages); err == nil {
		return packages
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(parent, "installing-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		copyFile(t, filepath.Join("node", name), fresh)
	}
	command(t, fresh, "npm", "ci", "--ignore-scripts")
	if err := os.Rename(fresh, home); err != nil && !errors.Is(err, fs.ErrExist) { // else somebody was faster
		t.Fatal(err)
	}
	return packages
}

func copyFile(t *testing.T, file, dir string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// perform has one client do all its jobs at once, and returns the results by the jobs' ids.
func perform(ctx context.Context, argv []string, jobs []job) (map[string]result, error) {
	var in, out, stderr bytes.Buffer
	for _, j := range jobs {
		if err := json.NewEncoder(&in).Encode(j); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Nothing of the caller's: a proxy, a key or a tracer in the environment would change what the SDKs do.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &stderr
	runErr := cmd.Run()
	results := map[string]result{}
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return results, fmt.Errorf("not a result: %w: %s", err, lines.Bytes())
		}
		results[r.ID] = r
	}
	if runErr != nil {
		return results, fmt.Errorf("%w; it said:\n%s", runErr, stderr.Bytes())
	}
	return results, nil
}

// performAll has all clients do their jobs, at the same time.
func performAll(t *testing.T, argv map[string][]string, jobs map[string][]job) map[string]result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	all := map[string]result{}
	var mu sync.Mutex
	var running sync.WaitGroup
	for name, list := range jobs {
		running.Go(func() {
			results, err := perform(ctx, argv[name], list)
			mu.Lock()
			defer mu.Unlock()
			for id, r := range results {
				all[id] = r
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	running.Wait()
	return all
}
