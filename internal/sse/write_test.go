package sse_test

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/sse"
)

func TestAppend(t *testing.T) {
	for name, tc := range map[string]struct{ got, want string }{
		"a comment as a line":                        {string(sse.AppendComment(nil, []byte(`{"a":1}`), sse.Line)), ": {\"a\":1}\n"},
		"a comment as a block":                       {string(sse.AppendComment(nil, []byte(`{"a":1}`), sse.Block)), ": {\"a\":1}\n\n"},
		"a comment cannot become a field":            {string(sse.AppendComment([]byte("\n"), []byte("a\ndata: b\rc"), sse.Line)), "\n: a data: b c\n"},
		"data":                                       {string(sse.AppendData(nil, []byte("1"))), "data: 1\n\n"},
		"data of several lines":                      {string(sse.AppendData(nil, []byte("1\n2\r\n3\r4"))), "data: 1\ndata: 2\ndata: 3\ndata: 4\n\n"},
		"an event with a name":                       {string(sse.AppendEvent(nil, "error", []byte("1"))), "event: error\ndata: 1\n\n"},
		"an event without a name":                    {string(sse.AppendEvent(nil, "", []byte("1"))), "data: 1\n\n"},
		"a splice keeps every other byte":            {splice(t, "event:e\r\nfoo:  bar\r\ndata:  {\"model\":\"a\" }\r\n\r\n"), "event:e\nfoo:  bar\ndata:  {\"model\":\"long\" }\n\n"},
		"a splice in data of several lines":          {splice(t, "event: e\ndata: {\ndata:  \"model\":\"a\"}\n\n"), "event: e\ndata: {\ndata:  \"model\":\"long\"}\n\n"},
		"a splice in an event with an earlier field": {splice(t, "id: 1\ndata:{\"model\":\"a\"}\nx\n\n"), "data:{\"model\":\"long\"}\nx\n\n"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
}

// splice replaces the string "a" in the data of the one event in text.
func splice(t *testing.T, text string) string {
	t.Helper()
	var s sse.Scanner
	s.Feed([]byte(text))
	ev, ok := s.Next()
	if !ok {
		t.Fatalf("no event in %q", text)
	}
	for i := range ev.Data {
		if string(ev.Data[i:i+3]) == `"a"` {
			return string(ev.AppendSpliced(nil, i, i+3, []byte(`"long"`)))
		}
	}
	t.Fatalf("nothing to replace in %q", ev.Data)
	return ""
}
