package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrNoChoices says that a stream carried no choice at all: there is nothing to assemble.
var ErrNoChoices = errors.New("stream: no choices")

// Assembler joins the chunks of a chat completion. The zero value is ready. A whole completion is taken as well, so
// that a server's JSON answer needs no case of its own.
type Assembler struct {
	head    Completion
	choices []*partialChoice // in the order in which they first appeared
}

// chunk is a chunk or a whole completion.
type chunk struct {
	ID                word            `json:"id"`
	Created           word            `json:"created"`
	Model             word            `json:"model"`
	SystemFingerprint word            `json:"system_fingerprint"`
	ServiceTier       word            `json:"service_tier"`
	Choices           []chunkChoice   `json:"choices"`
	Usage             *Usage          `json:"usage"`
	Error             json.RawMessage `json:"error"`
}

type chunkChoice struct {
	Index        int       `json:"index"`
	Delta        *delta    `json:"delta"`
	Message      *delta    `json:"message"`
	Logprobs     *Logprobs `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type delta struct {
	Role             string         `json:"role"`
	Content          text           `json:"content"`
	Reasoning        text           `json:"reasoning"`
	ReasoningContent text           `json:"reasoning_content"`
	ReasoningDetails List           `json:"reasoning_details"`
	Annotations      List           `json:"annotations"`
	Images           List           `json:"images"`
	Refusal          text           `json:"refusal"`
	ToolCalls        []toolFragment `json:"tool_calls"`
	FunctionCall     *functionPart  `json:"function_call"`
	Audio            *Audio         `json:"audio"`
}

type functionPart struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type toolFragment struct {
	Index    *int         `json:"index"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionPart `json:"function"`
}

// Add takes the data of one event. [DONE] and data that is null are ignored; an error within the data is returned as an
// *Error, data that is no chunk as another error.
func (a *Assembler) Add(data []byte) error {
	if s := strings.TrimSpace(string(data)); s == "" || s == doneData {
		return nil
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("stream: data is no chat completion chunk: %w", err)
	}
	if e := parseError(c.Error, 200); e != nil {
		return e
	}
	a.addHead(&c)
	for i := range c.Choices {
		a.choice(c.Choices[i].Index).add(&c.Choices[i])
	}
	return nil
}

func (a *Assembler) addHead(c *chunk) {
	first(&a.head.ID, string(c.ID))
	first(&a.head.Model, string(c.Model))
	first(&a.head.SystemFingerprint, string(c.SystemFingerprint))
	first(&a.head.ServiceTier, string(c.ServiceTier))
	created, _ := strconv.ParseFloat(string(c.Created), 64) // 0, NaN or infinite where it is no time
	if a.head.Created == 0 && created > 0 && created < 1<<62 {
		a.head.Created = int64(created)
	}
	if c.Usage != nil {
		a.head.Usage = c.Usage // a running total: the last one counts
	}
}

func (a *Assembler) choice(index int) *partialChoice {
	for _, c := range a.choices {
		if c.index == index {
			return c
		}
	}
	c := &partialChoice{index: index}
	a.choices = append(a.choices, c)
	return c
}

// Finished says whether every choice has its finish reason: then the answer is whole, with or without [DONE].
func (a *Assembler) Finished() bool {
	open := func(c *partialChoice) bool { return c.finish == "" }
	return len(a.choices) > 0 && !slices.ContainsFunc(a.choices, open)
}

// Completion returns what has been assembled so far, its choices sorted by index. Without any choice it is
// ErrNoChoices.
func (a *Assembler) Completion() (*Completion, error) {
	if len(a.choices) == 0 {
		return nil, ErrNoChoices
	}
	out := a.head
	out.Object = "chat.completion"
	for _, c := range a.choices {
		out.Choices = append(out.Choices, c.whole())
	}
	slices.SortStableFunc(out.Choices, func(x, y Choice) int { return x.Index - y.Index })
	return &out, nil
}

// joined is a text that grows and knows whether it was there at all.
type joined struct {
	strings.Builder
	present bool
}

func (j *joined) add(t text) {
	if t.value != nil {
		j.present = true
		j.WriteString(*t.value)
	}
}

func (j *joined) value() *string {
	if !j.present {
		return nil
	}
	s := j.String()
	return &s
}

// partialChoice is one choice while its chunks come in.
type partialChoice struct {
	index                                          int
	streamed                                       bool // deltas have said something: some servers put the whole message beside or behind them
	role, finish                                   string
	content, reasoning, reasoningContent, refusals joined
	details, annotations, images                   List
	tools                                          []*partialTool
	function                                       *partialFunction
	audio                                          *partialAudio
	logprobs                                       *Logprobs
}

func (c *partialChoice) add(in *chunkChoice) {
	if in.FinishReason != nil && *in.FinishReason != "" {
		c.finish = *in.FinishReason
	}
	if in.Logprobs != nil {
		if c.logprobs == nil {
			c.logprobs = &Logprobs{}
		}
		c.logprobs.Content = append(c.logprobs.Content, in.Logprobs.Content...)
		c.logprobs.Refusal = append(c.logprobs.Refusal, in.Logprobs.Refusal...)
	}
	if in.Delta != nil {
		c.streamed = c.streamed || in.Delta.says()
		c.addDelta(in.Delta)
	}
	if in.Message != nil && !c.streamed {
		c.addDelta(in.Message)
	}
}

// says reports whether a delta carries anything that a model generates.
func (d *delta) says() bool {
	for _, t := range [...]text{d.Content, d.Reasoning, d.ReasoningContent, d.Refusal} {
		if t.thinking != nil || t.value != nil && *t.value != "" {
			return true
		}
	}
	lists := len(d.ReasoningDetails) + len(d.Annotations) + len(d.Images) + len(d.ToolCalls)
	return lists > 0 || d.FunctionCall != nil || d.Audio != nil
}

func (c *partialChoice) addDelta(d *delta) {
	first(&c.role, d.Role)
	c.content.add(d.Content)
	c.reasoning.add(d.Reasoning)
	c.reasoningContent.add(d.ReasoningContent)
	c.reasoningContent.add(text{value: d.Content.thinking})
	c.refusals.add(d.Refusal)
	c.details = append(c.details, d.ReasoningDetails...)
	c.annotations = append(c.annotations, d.Annotations...)
	c.images = append(c.images, d.Images...)
	for i := range d.ToolCalls {
		c.tool(&d.ToolCalls[i]).add(&d.ToolCalls[i])
	}
	if d.FunctionCall != nil {
		if c.function == nil {
			c.function = &partialFunction{}
		}
		c.function.add(d.FunctionCall)
	}
	if d.Audio != nil {
		c.addAudio(d.Audio)
	}
}

func (c *partialChoice) addAudio(in *Audio) {
	if c.audio == nil {
		c.audio = &partialAudio{}
	}
	first(&c.audio.id, in.ID)
	c.audio.data.WriteString(in.Data)
	c.audio.transcript.WriteString(in.Transcript)
	c.audio.expiresAt = max(c.audio.expiresAt, in.ExpiresAt)
}

// tool finds the call that a fragment belongs to, or begins a new one. Servers exist that leave the index out, or give
// every call the same, or every fragment an id of its own: one with another id begins a new call where it has a name or
// no index, and so does one without an id that names another function; one that tells nothing of its own goes to the latest.
func (c *partialChoice) tool(f *toolFragment) *partialTool {
	if t := c.begun(f); t != nil {
		return t
	}
	if n := len(c.tools); n > 0 && f.ID == "" && f.Function.Name == "" {
		return c.tools[n-1]
	}
	t := &partialTool{index: f.Index}
	c.tools = append(c.tools, t)
	return t
}

// begun is the call that a fragment says it belongs to, or nil. By its index alone that is the latest one with it.
func (c *partialChoice) begun(f *toolFragment) *partialTool {
	var byIndex *partialTool
	for _, t := range slices.Backward(c.tools) {
		switch {
		case !t.sharesIndex(f):
			continue
		case t.isOver(f):
			return nil
		case f.ID == "" || f.ID == t.id || f.Index != nil && t.id == "":
			return t
		case byIndex == nil && f.Index != nil && f.Function.Name == "":
			byIndex = t
		}
	}
	return byIndex
}

func (c *partialChoice) whole() Choice {
	m := Message{
		Role:             c.role,
		Content:          c.content.value(),
		Reasoning:        c.reasoning.value(),
		ReasoningContent: c.reasoningContent.value(),
		ReasoningDetails: c.details,
		Annotations:      c.annotations,
		Images:           c.images,
		Refusal:          c.refusals.value(),
	}
	first(&m.Role, "assistant")
	for _, t := range c.tools {
		m.ToolCalls = append(m.ToolCalls, t.whole())
	}
	if c.audio != nil {
		m.Audio = c.audio.whole()
	}
	if c.function != nil {
		f := c.function.whole()
		m.FunctionCall = &f
	}
	return Choice{Index: c.index, Message: m, Logprobs: c.logprobs, FinishReason: FinishReason(c.finish)}
}

// partialAudio is spoken output while its pieces come in.
type partialAudio struct {
	id               string
	data, transcript strings.Builder
	expiresAt        int64
}

func (a *partialAudio) whole() *Audio {
	return &Audio{ID: a.id, Data: a.data.String(), Transcript: a.transcript.String(), ExpiresAt: a.expiresAt}
}

// partialFunction is a function call whose arguments come in pieces.
type partialFunction struct {
	name      string
	arguments strings.Builder
}

func (f *partialFunction) add(in *functionPart) {
	first(&f.name, in.Name)
	f.arguments.WriteString(in.Arguments)
}

func (f *partialFunction) whole() Function {
	return Function{Name: f.name, Arguments: f.arguments.String()}
}

// partialTool is a tool call while its fragments come in.
type partialTool struct {
	index    *int
	id, kind string
	function partialFunction
}

// sharesIndex says whether a fragment may belong to the call: it has the same index, or none.
func (t *partialTool) sharesIndex(f *toolFragment) bool {
	return f.Index == nil || t.index != nil && *t.index == *f.Index
}

// isOver says whether a fragment without an id begins a call behind this one: by another name, or by the same one where
// there is no index and the arguments are whole.
func (t *partialTool) isOver(f *toolFragment) bool {
	if f.ID != "" || f.Function.Name == "" || t.function.name == "" {
		return false
	}
	return f.Function.Name != t.function.name || f.Index == nil && json.Valid([]byte(t.function.arguments.String()))
}

func (t *partialTool) add(f *toolFragment) {
	first(&t.id, f.ID)
	first(&t.kind, f.Type)
	t.function.add(&f.Function)
}

func (t *partialTool) whole() ToolCall {
	kind := t.kind
	first(&kind, "function")
	return ToolCall{ID: t.id, Type: kind, Function: t.function.whole()}
}

// first keeps what came first.
func first(dst *string, s string) {
	if *dst == "" {
		*dst = s
	}
}
