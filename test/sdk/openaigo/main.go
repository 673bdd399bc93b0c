// Command openaigo is openai-go as a conformance client: jobs come in as lines of JSON, results go out as lines of JSON,
// all jobs at once. It is built with two versions of openai-go, see go.mod.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

type job struct {
	ID      string `json:"id"`
	BaseURL string `json:"baseURL"`
	Suffix  string `json:"suffix"` // of the endpoint
	Model   string `json:"model"`
	Stream  bool   `json:"stream"`
	Tools   bool   `json:"tools"`
	Retries int    `json:"retries"`
	CA      string `json:"ca"` // the certificate (PEM) to trust; empty: those of the system
}

type result struct {
	ID        string      `json:"id"`
	Text      string      `json:"text"`
	Reasoning string      `json:"reasoning"`
	Tools     []call      `json:"tools"`
	Vectors   [][]float64 `json:"vectors"`
	Finish    string      `json:"finish"`
	Model     string      `json:"model"`
	Tokens    int64       `json:"tokens"`
	Error     *raised     `json:"error,omitempty"`
}

type call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type raised struct {
	Class   string `json:"class"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func main() {
	var running sync.WaitGroup
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var j job
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			fmt.Fprintln(os.Stderr, "openaigo: a job that is none:", err)
			os.Exit(1)
		}
		running.Go(func() {
			r := do(j)
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(r) // nobody is left to tell
		})
	}
	running.Wait()
}

func do(j job) *result {
	r := &result{ID: j.ID, Tools: []call{}}
	options := []option.RequestOption{
		option.WithBaseURL(j.BaseURL + "/v1"), option.WithAPIKey("sk-caller"), option.WithMaxRetries(j.Retries),
	}
	if j.CA != "" {
		options = append(options, option.WithHTTPClient(trusting(j.CA)))
	}
	client := openai.NewClient(options...)
	one := map[string]func(*openai.Client, job) error{
		"/chat/completions": r.complete, "/completions": r.completeText, "/embeddings": r.embed, "/responses": r.respond,
	}[j.Suffix]
	if err := one(&client, j); err != nil {
		r.Error = describe(err)
	}
	return r
}

// trusting is net/http's own client but for the certificate that it trusts: it offers HTTP/2 and takes what is chosen.
func trusting(ca string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	transport.TLSHandshakeTimeout = 0                                // on a busy machine, hundreds of clients begin at once
	transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(ca)) // one that is none fails in the handshake
	return &http.Client{Transport: transport}
}

const prompt = "What is the weather in Paris and in Tokyo?"

// citySchema is what the tool "weather" takes.
var citySchema = map[string]any{
	"type":                 "object",
	"properties":           map[string]any{"city": map[string]any{"type": "string"}},
	"required":             []string{"city"},
	"additionalProperties": false,
}

// complete does a job by /v1/chat/completions.
func (r *result) complete(client *openai.Client, j job) error {
	params := openai.ChatCompletionNewParams{
		Model:    j.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	}
	if j.Tools {
		weather := shared.FunctionDefinitionParam{
			Name: "weather", Description: openai.String("The weather in a city."), Parameters: citySchema,
		}
		params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(weather)}
	}
	if j.Stream {
		return r.stream(client, params)
	}
	return r.plain(client, params)
}

func (r *result) plain(client *openai.Client, params openai.ChatCompletionNewParams) error {
	completion, err := client.Chat.Completions.New(context.Background(), params)
	if err != nil {
		return err
	}
	r.take(completion)
	if len(completion.Choices) > 0 {
		r.Reasoning = text(completion.Choices[0].Message.JSON.ExtraFields["reasoning_content"].Raw())
	}
	return nil
}

func (r *result) stream(client *openai.Client, params openai.ChatCompletionNewParams) error {
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(context.Background(), params)
	defer func() { _ = stream.Close() }() // all has been read
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		chunk := stream.Current()
		if !whole.AddChunk(chunk) {
			return errors.New("the accumulator refused a chunk")
		}
		if len(chunk.Choices) > 0 {
			r.Reasoning += text(chunk.Choices[0].Delta.JSON.ExtraFields["reasoning_content"].Raw())
		}
	}
	r.take(&whole.ChatCompletion)
	return stream.Err()
}

// take copies what an answer says.
func (r *result) take(completion *openai.ChatCompletion) {
	r.Model, r.Tokens = completion.Model, completion.Usage.TotalTokens
	if len(completion.Choices) == 0 {
		return
	}
	choice := &completion.Choices[0]
	r.Text, r.Finish = choice.Message.Content, choice.FinishReason
	for _, c := range choice.Message.ToolCalls {
		r.Tools = append(r.Tools, call{c.Function.Name, c.Function.Arguments})
	}
}

// text is a JSON string's value, empty where there is none.
func text(raw string) string {
	var s string
	_ = json.Unmarshal([]byte(raw), &s) // absent or null: nothing was said
	return s
}

// describe tells an error by the name of its type: not all versions have the same types.
func describe(err error) *raised {
	e := &raised{Class: fmt.Sprintf("%T", err), Message: err.Error()}
	var api *openai.Error
	if errors.As(err, &api) {
		e.Status, e.Code, e.Message = api.StatusCode, api.Code, api.Message
	}
	return e
}
