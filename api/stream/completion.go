package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// Completion is a whole chat completion, in the form in which the API answers without a stream.
type Completion struct {
	ID                string   `json:"id,omitempty"`
	Object            string   `json:"object"`
	Created           int64    `json:"created,omitempty"`
	Model             string   `json:"model"`
	SystemFingerprint string   `json:"system_fingerprint,omitempty"`
	ServiceTier       string   `json:"service_tier,omitempty"`
	Choices           []Choice `json:"choices"`
	// Usage is nil where the server told nothing.
	Usage *Usage `json:"usage,omitempty"`
}

// Choice is one of the answers.
type Choice struct {
	Index    int       `json:"index"`
	Message  Message   `json:"message"`
	Logprobs *Logprobs `json:"logprobs,omitempty"`
	// FinishReason is empty (null on the wire) where the stream ended without one.
	FinishReason FinishReason `json:"finish_reason"`
}

// FinishReason says why an answer ended: stop, length, tool_calls, content_filter and others.
type FinishReason string

// MarshalJSON writes null for the empty reason.
func (f FinishReason) MarshalJSON() ([]byte, error) {
	if f == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(f))
}

// Message is what the model said. A nil string was absent in the stream; absent and empty are different.
type Message struct {
	Role string `json:"role"`
	// Content is null on the wire where it was absent, as the API has it.
	Content *string `json:"content"`
	// Reasoning and ReasoningContent are two names that servers use for the same thing; some send both. Parts of
	// the content that think (Mistral's) are joined to ReasoningContent.
	Reasoning        *string `json:"reasoning,omitempty"`
	ReasoningContent *string `json:"reasoning_content,omitempty"`
	// ReasoningDetails, Annotations and Images are lists whose entries stay as the server sent them.
	ReasoningDetails List    `json:"reasoning_details,omitempty"`
	Annotations      List    `json:"annotations,omitempty"`
	Images           List    `json:"images,omitempty"`
	Refusal          *string `json:"refusal,omitempty"`
	// ToolCalls in the order in which they first appeared.
	ToolCalls    []ToolCall `json:"tool_calls,omitempty"`
	FunctionCall *Function  `json:"function_call,omitempty"`
	Audio        *Audio     `json:"audio,omitempty"`
}

// Text is the content, empty where it was absent.
func (m *Message) Text() string {
	if m.Content == nil {
		return ""
	}
	return *m.Content
}

// ToolCall is one call that the model asks for.
type ToolCall struct {
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function names a function and its arguments, which are JSON as the model wrote it.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Audio is spoken output.
type Audio struct {
	ID         string `json:"id,omitempty"`
	Data       string `json:"data,omitempty"`
	Transcript string `json:"transcript,omitempty"`
	ExpiresAt  int64  `json:"expires_at,omitempty"`
}

// Logprobs holds one entry for each token, as the server sent it.
type Logprobs struct {
	Content []json.RawMessage `json:"content,omitempty"`
	Refusal []json.RawMessage `json:"refusal,omitempty"`
}

// UnmarshalJSON takes an object with lists. What is of another form, as one number beside each piece, says nothing.
func (l *Logprobs) UnmarshalJSON(b []byte) error {
	var lists struct{ Content, Refusal List }
	_ = json.Unmarshal(b, &lists) // it is JSON, and an answer is not worth less for it
	*l = Logprobs{lists.Content, lists.Refusal}
	return nil
}

// List is a list whose entries are the server's own. What is no list is an empty one.
type List []json.RawMessage

// UnmarshalJSON takes a list, or anything else for none.
func (l *List) UnmarshalJSON(b []byte) error {
	var entries []json.RawMessage
	_ = json.Unmarshal(b, &entries) // it is JSON, and what is no list leaves nothing
	*l = entries
	return nil
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int64
	CompletionTokens int64
	TotalTokens      int64
	// Raw is the whole object as the server sent it, with the details that the three numbers leave out.
	Raw json.RawMessage
}

type wireUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// UnmarshalJSON keeps the object beside the numbers. A number that is no count is 0.
func (u *Usage) UnmarshalJSON(b []byte) error {
	var w wireUsage
	_ = json.Unmarshal(b, &w) // it is JSON, and an answer is not worth less because it is counted oddly
	*u = Usage{w.PromptTokens, w.CompletionTokens, w.TotalTokens, bytes.Clone(b)}
	return nil
}

// MarshalJSON writes Raw where it is set.
func (u *Usage) MarshalJSON() ([]byte, error) {
	if u.Raw != nil {
		return u.Raw, nil
	}
	return json.Marshal(wireUsage{u.PromptTokens, u.CompletionTokens, u.TotalTokens})
}

// text is content as a string, or as a list of parts of which those of text count, and apart from them those that think.
type text struct{ value, thinking *string }

// part is one of a list. What it thinks is text again, or nothing that is known.
type part struct {
	Text     string          `json:"text"`
	Thinking json.RawMessage `json:"thinking"`
}

var errContent = errors.New("stream: content is neither text nor a list of parts")

// UnmarshalJSON takes a string, a list of parts, one part, or null for absent. A number or a truth value is a word: some servers take
// tokens that look like one for one.
func (t *text) UnmarshalJSON(b []byte) error {
	var s *string
	if json.Unmarshal(b, &s) == nil {
		t.value = s
		return nil
	}
	if b[0] != '[' && b[0] != '{' {
		literal := string(b)
		t.value = &literal
		return nil
	}
	if b[0] == '{' { // one part without a list around it
		b = slices.Concat([]byte{'['}, b, []byte{']'})
	}
	var parts []part
	if json.Unmarshal(b, &parts) != nil {
		return errContent
	}
	var said, thought joined
	said.present = len(parts) == 0
	for _, p := range parts {
		if p.Text != "" || p.Thinking == nil { // the other member may be there, and empty
			said.add(text{value: &p.Text})
		}
		if p.Thinking == nil {
			continue
		}
		var inner text
		_ = inner.UnmarshalJSON(p.Thinking) // what does not fit is not known
		thought.add(inner)
	}
	t.value, t.thinking = said.value(), thought.value()
	return nil
}
