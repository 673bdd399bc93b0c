package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-dev/spillway/internal/openai"
)

var goodEnvelopes = map[string]struct {
	body string
	want openai.Envelope
}{
	"model alone":                        {`{"model":"a"}`, openai.Envelope{Model: "a"}},
	"white space everywhere":             {" \r\n{\t\"model\" : \"a\" ,\n\"stream\" : true } \n", openai.Envelope{Model: "a", Stream: true}},
	"a model with escapes":               {`{"model":"sirens\u002decho\/d\"e"}`, openai.Envelope{Model: `sirens-echo/d"e`}},
	"a model beyond ASCII":               {`{"model":"北京🙂"}`, openai.Envelope{Model: "北京🙂"}},
	"the name of the member has escapes": {`{"mod\u0065l":"a"}`, openai.Envelope{Model: "a"}},
	"nested models do not count":         {`{"messages":[{"model":"x","stream":true}],"o":{"model":"y"},"model":"a"}`, openai.Envelope{Model: "a"}},
	"other cases do not count":           {`{"Model":"x","MODEL":"y","model":"a","Stream":true,"model ":"z"}`, openai.Envelope{Model: "a"}},
	"C7 stream is null":                  {`{"model":"a","stream":null}`, openai.Envelope{Model: "a"}},
	"C7 stream is false, with options": {
		`{"model":"a","stream":false,"stream_options":{"include_usage":true},"x_unknown":{"deep":[1]}}`,
		openai.Envelope{Model: "a", IncludeUsage: true},
	},
	"C7 stream_options is null":     {`{"model":"a","stream_options":null,"stream":true}`, openai.Envelope{Model: "a", Stream: true}},
	"stream_options of another use": {`{"model":"a","stream_options":{"x":[1],"include_usage":"true"}}`, openai.Envelope{Model: "a"}},
	"stream_options that end with another": {
		`{"model":"a","stream_options":{"include_usage":true,"include_obfuscation":false}}`, openai.Envelope{Model: "a", IncludeUsage: true},
	},
	"stream_options that begin with another": {
		`{"model":"a","stream_options":{"x":[1],"include_usage":true}}`, openai.Envelope{Model: "a", IncludeUsage: true},
	},
	"stream_options without usage":  {`{"model":"a","stream_options":{"include_obfuscation":true}}`, openai.Envelope{Model: "a"}},
	"a prompt of text after an id":  {`{"model":"a","conversation":"conv_1","prompt":"x"}`, openai.Envelope{Model: "a", Stored: true}},
	"more lists than may be nested": {`{"model":"a","x":[` + strings.Repeat("[],", 20_000) + `0]}`, openai.Envelope{Model: "a"}},
	"a previous response":           {`{"model":"a","previous_response_id":"resp_1"}`, openai.Envelope{Model: "a", Stored: true}},
	"a conversation":                {`{"model":"a","conversation":{"id":"conv_1"}}`, openai.Envelope{Model: "a", Stored: true}},
	"a conversation that is null":   {`{"model":"a","previous_response_id":"resp_1","conversation":null}`, openai.Envelope{Model: "a", Stored: true}},
	"a stored prompt":               {`{"model":"a","prompt":{"id":"pmpt_1"}}`, openai.Envelope{Model: "a", Stored: true}},
	"a prompt of text":              {`{"model":"a","prompt":"{"}`, openai.Envelope{Model: "a"}},
	"prompts in a list":             {`{"model":"a","prompt": ["x","y"]}`, openai.Envelope{Model: "a", List: true}},
	"tokens":                        {`{"input":[1,2],"model":"a","prompt":"x"}`, openai.Envelope{Model: "a", List: true}},
	"an input of text":              {`{"model":"a","input":"[","x":{"input":[1]}}`, openai.Envelope{Model: "a"}},
	"no previous response":          {`{"model":"a","previous_response_id":null}`, openai.Envelope{Model: "a"}},
	"C2 numbers that no type holds": {c2, openai.Envelope{Model: "a"}},
}

const c2 = `{"model":"a","seed":9007199254740993,"n":1.0,"e":1E5,"big":123456789012345678901234567890,"huge":1e400,"s":"\u003c\u2028","z":{"b":1,"a":2}}`

func TestParseEnvelope(t *testing.T) {
	for name, tc := range goodEnvelopes {
		t.Run(name, func(t *testing.T) {
			got, err := openai.ParseEnvelope([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(openai.Envelope{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var badEnvelopes = map[string]struct{ body, wantParam string }{
	"C4 model is a number":            {`{"model":123}`, "model"},
	"a word in place of a member":     {`{"model":"m",null}`, "model"},
	"NaN, which is no JSON":           {`{"model":"m","temperature":NaN}`, "model"},
	"-Infinity, which is no JSON":     {`{"model":"m","temperature":-Infinity}`, "model"},
	"C4 model is true":                {`{"model":true}`, "model"},
	"C4 model is a list":              {`{"model":[]}`, "model"},
	"C4 model is an object":           {`{"model":{}}`, "model"},
	"C4 model is null":                {`{"model":null}`, "model"},
	"C4 model is empty":               {`{"model":""}`, "model"},
	"C4 model is absent":              {`{"messages":[]}`, "model"},
	"C4 an empty object":              {`{}`, "model"},
	"C4 the body is a list":           {`[]`, "model"},
	"C4 the body is a string":         {`"x"`, "model"},
	"C4 the body is null":             {`null`, "model"},
	"C4 the body is empty":            {``, "model"},
	"C4 the body is blank":            {" \n", "model"},
	"C4 two objects":                  {`{"model":"a"}{"model":"b"}`, "model"},
	"C4 something behind the object":  {`{"model":"a"}x`, "model"},
	"C4 a NUL behind the object":      {"{\"model\":\"a\"}\x00", "model"},
	"C4 a body that is cut":           {`{"model":"a","messages":[{"role":"us`, "model"},
	"a prompt that is cut":            {`{"model":"a","prompt":`, "model"},
	"stream_options that are cut":     {`{"model":"a","stream_options":`, "model"},
	"C4 a byte order mark":            {"\ufeff" + `{"model":"a"}`, "model"},
	"C4 invalid UTF-8":                {"{\"model\":\"a\",\"x\":\"\xff\"}", "model"},
	"C4 invalid UTF-8 in the model":   {"{\"model\":\"a\xc3\"}", "model"},
	"UTF-8 of a surrogate":            {"{\"model\":\"a\",\"x\":\"\xed\xa0\x80\"}", "model"},
	"model twice":                     {`{"model":"a","model":"a"}`, "model"},
	"model twice, once with escapes":  {`{"model":"a","\u006dodel":"b"}`, "model"},
	"a comma too many":                {`{"model":"a",}`, "model"},
	"a comma too many in a list":      {`{"model":"a","x":[1,]}`, "model"},
	"a comma too few":                 {`{"model":"a" "x":1}`, "model"},
	"a leading zero":                  {`{"model":"a","x":01}`, "model"},
	"a number without digits":         {`{"model":"a","x":-}`, "model"},
	"a number without a fraction":     {`{"model":"a","x":1.}`, "model"},
	"a number without an exponent":    {`{"model":"a","x":1e+}`, "model"},
	"not a number":                    {`{"model":"a","x":NaN}`, "model"},
	"a control character in a string": {"{\"model\":\"a\",\"x\":\"1234567\n\"}", "model"},
	"an unknown escape":               {`{"model":"a","x":"\x"}`, "model"},
	"half an escape":                  {`{"model":"a","x":"\u12"}`, "model"},
	"an escape at the end":            {`{"model":"a","x":"\`, "model"},
	"single quotes":                   {`{'model':'a'}`, "model"},
	"nested deeper than any request":  {`{"model":"a","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "model"},
	"stream twice":                    {`{"model":"a","stream":true,"stream":false}`, "stream"},
	"C7 stream is a string":           {`{"model":"a","stream":"true"}`, "stream"},
	"C7 stream is a number":           {`{"model":"a","stream":1}`, "stream"},
	"stream is an object":             {`{"stream":{},"model":"a"}`, "stream"},
}

func TestParseEnvelopeNamesTheParameter(t *testing.T) {
	for name, tc := range badEnvelopes {
		t.Run(name, func(t *testing.T) {
			_, err := openai.ParseEnvelope([]byte(tc.body))
			var e *openai.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want an *openai.Error", err)
			}
			if e.Param != tc.wantParam || e.Message == "" || e.Code != openai.CodeInvalidRequest || e.HTTPStatus() != http.StatusBadRequest {
				t.Errorf("%s with param %q and status %d", e.Code, e.Param, e.HTTPStatus())
			}
		})
	}
}

func TestMissingModelIsToldFromAWrongOne(t *testing.T) {
	if _, err := openai.ParseEnvelope([]byte(`{}`)); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v", err)
	}
}

func TestSpliceChangesOnlyTheModel(t *testing.T) {
	for name, tc := range map[string]struct{ body, model, want string }{
		"C1 a longer name":              {`{"model":"m","n":1}`, "organisation/much-longer-name", `{"model":"organisation/much-longer-name","n":1}`},
		"C1 a shorter name":             {`{"n":1,"model":"organisation/m"}`, "m", `{"n":1,"model":"m"}`},
		"C2 every other byte stays":     {c2, "b", strings.Replace(c2, `"a"`, `"b"`, 1)},
		"white space stays":             {" { \"model\" :\t\"m\" } ", "x", " { \"model\" :\t\"x\" } "},
		"a name that needs escapes":     {`{"model":"m"}`, "a\"b\\c\n<🙂>", `{"model":"a\"b\\c\n<🙂>"}`},
		"nested models stay":            {`{"x":{"model":"m"},"model":"m"}`, "p", `{"x":{"model":"m"},"model":"p"}`},
		"C7 nothing is added to a null": {`{"model":"m","stream":null}`, "p", `{"model":"p","stream":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := openai.ParseEnvelope([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			body := e.Splice([]byte(tc.body), tc.model)
			if body.Len() != int64(len(tc.want)) {
				t.Errorf("length %d, want %d", body.Len(), len(tc.want))
			}
			for range 2 { // each attempt reads it anew
				if err := iotest.TestReader(body.Reader(), []byte(tc.want)); err != nil {
					t.Error(err)
				}
			}
			var out bytes.Buffer
			r := body.Reader()
			if n, err := io.Copy(&out, r); err != nil || n != body.Len() || out.String() != tc.want {
				t.Errorf("copied %q, %d, %v", out.String(), n, err)
			}
			if n, err := io.Copy(&out, r); err != nil || n != 0 {
				t.Errorf("%d more copied, %v", n, err)
			}
		})
	}
}

func TestSpliceStopsAtAFailingWriter(t *testing.T) {
	e, _ := openai.ParseEnvelope([]byte(`{"model":"m"}`))
	r := e.Splice([]byte(`{"model":"m"}`), "x").Reader()
	if n, err := r.(io.WriterTo).WriteTo(failingWriter{}); n != 1 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("wrote %d, error %v", n, err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 1, io.ErrShortWrite }

// FuzzEnvelope compares with encoding/json, which accepts the same language apart from invalid UTF-8.
func FuzzEnvelope(f *testing.F) {
	for _, tc := range goodEnvelopes {
		if len(tc.body) < 1000 {
			f.Add([]byte(tc.body))
		}
	}
	for _, tc := range badEnvelopes {
		if len(tc.body) < 1000 {
			f.Add([]byte(tc.body))
		}
	}
	f.Fuzz(mustAgree)
}

// TestEveryByteOfABodyCounts cuts a body at each place behind its model, and puts each byte there that means something to
// JSON or is next to one that does. encoding/json says what is right.
func TestEveryByteOfABodyCounts(t *testing.T) {
	const (
		model = `{"model":"a"`
		whole = model + `,"l":"0123456789abcdefghijklmnopqrstuvwxyz","x":[-0,1.5E+2,10e-3,0,"\"\\\/\b\f\n\r\t\u09afAFé🙂","",{"":null},true],"":"é~"}`
		marks = "\x00\t\x1f !\"#+,-./09:@AEFGINZ[\\]`abefgnrtux{}\x7f\x80\xbf\xc3\xff"
	)
	mustBeRight := func(body []byte) {
		_, err := openai.ParseEnvelope(slices.Clip(body))
		if want := json.Valid(body) && utf8.Valid(body); want != (err == nil) {
			t.Errorf("error %v of %q, encoding/json takes it: %v", err, body, want)
		}
	}
	for at := len(model); at < len(whole); at++ {
		mustBeRight([]byte(whole[:at]))
		mustBeRight([]byte(whole[:at] + whole[at+1:]))
		for _, b := range []byte(marks) {
			body := []byte(whole)
			body[at] = b
			mustBeRight(body)
		}
	}
}

func TestNestingIsBoundedAsEncodingJSONBoundsIt(t *testing.T) {
	for _, depth := range []int{9_999, 10_000} { // and the object around them
		mustAgree(t, []byte(`{"model":"a","x":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+`}`))
	}
}

func mustAgree(t *testing.T, body []byte) {
	got, err := openai.ParseEnvelope(body)
	want, ok := referenceEnvelope(body)
	if ok != (err == nil) {
		t.Fatalf("error %v of %q, the reference accepts: %v", err, body, ok)
	}
	if ok {
		mustSplice(t, body, got, want)
	}
}

func mustSplice(t *testing.T, body []byte, got openai.Envelope, want reference) {
	t.Helper()
	if diff := cmp.Diff(want.Envelope, got, cmpopts.IgnoreUnexported(openai.Envelope{})); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	spliced, err := io.ReadAll(got.Splice(body, "other").Reader())
	if err != nil {
		t.Fatal(err)
	}
	if want := string(body[:want.from]) + `"other"` + string(body[want.to:]); string(spliced) != want {
		t.Fatalf("spliced to %q, want %q", spliced, want)
	}
	again, err := openai.ParseEnvelope(spliced)
	if err != nil || again.Model != "other" || again.Stream != got.Stream {
		t.Fatalf("after the splice: %+v, %v", again, err)
	}
	if want := got.Splice(body, "other").Len(); int64(len(spliced)) != want {
		t.Fatalf("length %d of %d bytes", want, len(spliced))
	}
}

// reference is what encoding/json says of a body: its top-level fields, and where the value of model lies.
type reference struct {
	openai.Envelope
	from, to int64
}

// referenceEnvelope reads the top level with encoding/json's tokens, which keep duplicates and the case of names.
func referenceEnvelope(body []byte) (r reference, ok bool) {
	members, ok := topLevel(body)
	models := members["model"]
	if !ok || len(models) != 1 || models[0].text[0] != '"' || json.Unmarshal(models[0].text, &r.Model) != nil {
		return r, false
	}
	r.from, r.to = models[0].end-int64(len(models[0].text)), models[0].end
	switch streams := members["stream"]; {
	case len(streams) > 1:
		return r, false
	case len(streams) == 1 && string(streams[0].text) == "true":
		r.Stream = true
	case len(streams) == 1 && string(streams[0].text) != "null" && string(streams[0].text) != "false":
		return r, false
	}
	if all := members["stream_options"]; len(all) > 0 { // the last one counts, as to encoding/json
		options, _ := topLevel(all[len(all)-1].text)
		include := options["include_usage"]
		r.IncludeUsage = len(include) > 0 && string(include[len(include)-1].text) == "true"
	}
	for _, name := range []string{"previous_response_id", "conversation", "prompt"} {
		for _, m := range members[name] {
			r.Stored = r.Stored || m.text[0] == '{' || name != "prompt" && string(m.text) != "null"
		}
	}
	for _, m := range slices.Concat(members["prompt"], members["input"]) {
		r.List = r.List || m.text[0] == '['
	}
	return r, r.Model != ""
}

// member is a value as it stands in the body, and the position behind it.
type member struct {
	text json.RawMessage
	end  int64
}

// topLevel returns all values of each member of an object.
func topLevel(body []byte) (map[string][]member, bool) {
	if !json.Valid(body) || !utf8.Valid(body) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, _ := d.Token(); open != json.Delim('{') {
		return nil, false
	}
	members := map[string][]member{}
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, false
		}
		members[name.(string)] = append(members[name.(string)], member{value, d.InputOffset()})
	}
	return members, true
}

func BenchmarkParseEnvelope(b *testing.B) {
	message := func(content string) string {
		return `{"messages":[{"role":"user","content":"` + content + `"}],"temperature":0.7,"stream":true,"model":"sirens-echo/default"}`
	}
	for name, body := range map[string]string{
		"1 KiB":               message(strings.Repeat("Tell me more. ", 65)),
		"9 MiB base64":        message("data:image/png;base64," + strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA", 9<<20/24)),
		"1 MiB Chinese":       message(strings.Repeat("北京欢迎你", 1<<20/15)),
		"1 MiB of escapes":    message(strings.Repeat(`line\n`, 1<<20/6)),
		"1 MiB small objects": `{"model":"a","x":[` + strings.Repeat(`{"a":1,"b":[true,null]},`, 1<<20/24) + `0]}`,
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(body)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := openai.ParseEnvelope(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSplice(b *testing.B) {
	text := []byte(`{"model":"m","x":"` + strings.Repeat("a", 9<<20) + `"}`)
	e, err := openai.ParseEnvelope(text)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.Copy(io.Discard, e.Splice(text, "organisation/name").Reader()); err != nil {
			b.Fatal(err)
		}
	}
}
