package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/api/stream"
)

// textCompletion assembles the chunks of /v1/completions. The zero value is ready.
type textCompletion struct {
	head    textHead
	choices []*partialText
}

// partialText is one choice while its chunks come in.
type partialText struct {
	textChoice
	text strings.Builder
}

type textHead struct {
	ID                string          `json:"id,omitempty"`
	Object            string          `json:"object"`
	Created           json.Number     `json:"created,omitempty"`
	Model             string          `json:"model"`
	SystemFingerprint string          `json:"system_fingerprint,omitempty"`
	Choices           []*textChoice   `json:"choices"`
	Usage             json.RawMessage `json:"usage,omitempty"`
}

type textChoice struct {
	Index        int           `json:"index"`
	Text         string        `json:"text"`
	Logprobs     *textLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

// textLogprobs holds parallel lists, one entry for each token.
type textLogprobs struct {
	Tokens        []json.RawMessage `json:"tokens"`
	TokenLogprobs []json.RawMessage `json:"token_logprobs"`
	TopLogprobs   []json.RawMessage `json:"top_logprobs"`
	TextOffset    []json.RawMessage `json:"text_offset"`
}

func (t *textCompletion) add(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) == 0 || bytes.Equal(data, doneWord) {
		return nil
	}
	var in textHead
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("openai: data is no text completion chunk: %w", err)
	}
	h := &t.head
	h.ID, h.Model = cmp.Or(h.ID, in.ID), cmp.Or(h.Model, in.Model)
	h.Created = cmp.Or(h.Created, in.Created)
	h.SystemFingerprint = cmp.Or(h.SystemFingerprint, in.SystemFingerprint)
	if !isNull(in.Usage) {
		h.Usage = in.Usage
	}
	for _, c := range in.Choices {
		if c != nil {
			t.join(c)
		}
	}
	return nil
}

func (t *textCompletion) join(in *textChoice) {
	i := slices.IndexFunc(t.choices, func(c *partialText) bool { return c.Index == in.Index })
	if i < 0 {
		i = len(t.choices)
		t.choices = append(t.choices, &partialText{textChoice: textChoice{Index: in.Index}})
	}
	c := t.choices[i]
	c.text.WriteString(in.Text)
	if in.FinishReason != nil {
		c.FinishReason = in.FinishReason
	}
	if in.Logprobs == nil {
		return
	}
	if c.Logprobs == nil {
		c.Logprobs = &textLogprobs{}
	}
	c.Logprobs.Tokens = append(c.Logprobs.Tokens, in.Logprobs.Tokens...)
	c.Logprobs.TokenLogprobs = append(c.Logprobs.TokenLogprobs, in.Logprobs.TokenLogprobs...)
	c.Logprobs.TopLogprobs = append(c.Logprobs.TopLogprobs, in.Logprobs.TopLogprobs...)
	c.Logprobs.TextOffset = append(c.Logprobs.TextOffset, in.Logprobs.TextOffset...)
}

func (t *textCompletion) body() ([]byte, error) {
	if len(t.choices) == 0 {
		return nil, stream.ErrNoChoices
	}
	out := t.head
	out.Object = "text_completion"
	for _, c := range t.choices {
		whole := c.textChoice
		whole.Text = c.text.String()
		out.Choices = append(out.Choices, &whole)
	}
	slices.SortStableFunc(out.Choices, func(a, b *textChoice) int { return cmp.Compare(a.Index, b.Index) })
	return encode(&out)
}
