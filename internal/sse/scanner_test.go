package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/sse"
)

// event is an sse.Event that outlives the Scanner's buffers.
type event struct{ Raw, Data, Name string }

func copyOf(ev sse.Event) event { return event{string(ev.Raw), string(ev.Data), string(ev.Name)} }

// scan feeds the parts, one after the other, and flushes.
func scan(s *sse.Scanner, parts ...string) ([]event, error) {
	var out []event
	for _, part := range parts {
		s.Feed([]byte(part))
		for ev, ok := s.Next(); ok; ev, ok = s.Next() {
			out = append(out, copyOf(ev))
		}
		if err := s.Err(); err != nil {
			return out, err
		}
	}
	ev, ok, err := s.Flush()
	if ok {
		out = append(out, copyOf(ev))
	}
	return out, err
}

func chunk(content string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"` +
		content + `"},"finish_reason":null}]}` + "\n\n"
}

const (
	fin  = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done = sse.Done
)

// plain is the event that a single data line makes.
func plain(raw string) event {
	return event{Raw: raw, Data: strings.TrimSuffix(strings.TrimPrefix(raw, "data: "), "\n\n")}
}

type scanCase struct {
	parts   []string
	want    []event
	wantErr error
}

var scanCases = map[string]scanCase{
	"A2 one leading byte order mark goes, even when it is cut, and a later one stays": {
		parts: []string{"\xef", "\xbb\xbf" + chunk("one") + chunk("a\ufeffb") + fin + done},
		want:  []event{plain(chunk("one")), plain(chunk("a\ufeffb")), plain(fin), plain(done)},
	},
	"A2 a second byte order mark is part of a field name": {
		parts: []string{"\ufeff\ufeffdata: 1\n\ndata: 2\n\n"},
		want:  []event{plain("data: 2\n\n")},
	},
	"A3 lines of any size up to the cap": {
		parts: []string{chunk(strings.Repeat("a", 64<<10+1)), chunk(strings.Repeat("b", 4<<20)), fin, done},
		want: []event{
			plain(chunk(strings.Repeat("a", 64<<10+1))), plain(chunk(strings.Repeat("b", 4<<20))), plain(fin), plain(done),
		},
	},
	"A4 no space behind the colon, one event over several data lines": {
		parts: []string{"event:message\ndata:{\"choices\":[{\"index\":0,\ndata:\"delta\":{\"content\":\"hi\"}}]}\n\ndata:[DONE]\n\n"},
		want: []event{
			{
				Raw:  "event:message\ndata:{\"choices\":[{\"index\":0,\ndata:\"delta\":{\"content\":\"hi\"}}]}\n\n",
				Data: "{\"choices\":[{\"index\":0,\n\"delta\":{\"content\":\"hi\"}}]}", Name: "message",
			},
			{Raw: "data:[DONE]\n\n", Data: "[DONE]"},
		},
	},
	"A4 empty data and an unknown field are no payload":    {parts: []string{"data:\n {\"id\":\"x\",\"choices\":[]}\n\n"}},
	"A4 one leading space goes, a second one stays":        {parts: []string{"data:  1\n\n"}, want: []event{{Raw: "data:  1\n\n", Data: " 1"}}},
	"A4 three data lines, one of them without a colon":     {parts: []string{"data:1\ndata\ndata: 3\n\n"}, want: []event{{Raw: "data:1\ndata\ndata: 3\n\n", Data: "1\n\n3"}}},
	"A4 a field that only begins like data is none":        {parts: []string{"database: 1\n\ndatum\n\n"}},
	"A5 a multibyte character cut between reads":           {parts: []string{chunk("北京🙂")[:95], chunk("北京🙂")[95:]}, want: []event{plain(chunk("北京🙂"))}},
	"A6 whole JSON at the end without any line end":        {parts: []string{chunk("a"), fin[:len(fin)-2]}, want: []event{plain(chunk("a")), plain(fin)}},
	"A6 whole JSON at the end with one LF":                 {parts: []string{chunk("a"), fin[:len(fin)-1]}, want: []event{plain(chunk("a")), plain(fin)}},
	"A6 whole JSON at the end with a CR":                   {parts: []string{chunk("a"), fin[:len(fin)-2] + "\r"}, want: []event{plain(chunk("a")), plain(fin)}},
	"A6 whole JSON at the end with CR LF":                  {parts: []string{fin[:len(fin)-2] + "\r", "\n"}, want: []event{plain(fin)}},
	"A6 [DONE] at the end without any line end":            {parts: []string{done[:len(done)-2]}, want: []event{plain(done)}},
	"A6 half a JSON value at the end is a cut":             {parts: []string{chunk("a"), fin[:len(fin)-4]}, want: []event{plain(chunk("a"))}, wantErr: sse.ErrCut},
	"A6 half a JSON value with a line end is a cut":        {parts: []string{"data: {\"a\":\n"}, wantErr: sse.ErrCut},
	"A6 half a [DONE] is a cut":                            {parts: []string{"data: [DON"}, wantErr: sse.ErrCut},
	"A6 half a field name is a cut":                        {parts: []string{"dat"}, wantErr: sse.ErrCut},
	"A6 half a field behind whole data is left out":        {parts: []string{"data: 1\neve"}, want: []event{plain("data: 1\n\n")}},
	"A6 a second data line that is cut":                    {parts: []string{"data: {\"a\":1}\ndata: {"}, wantErr: sse.ErrCut},
	"A6 a comment, an id and a retry at the end are none":  {parts: []string{": hi"}},
	"A6 an id at the end is none":                          {parts: []string{"id: 7"}},
	"A6 an empty data line at the end is none":             {parts: []string{"data:\n"}},
	"A6 an empty stream":                                   {},
	"A9 blocks without payload are dropped":                {parts: []string{"retry: 3000\n\n: hi\n\nid: 7\n\ndata:\n\ndata: null\n\n" + chunk("x") + fin + done}, want: []event{plain(chunk("x")), plain(fin), plain(done)}},
	"A9 id and retry lines within an event are dropped":    {parts: []string{"id: 7\ndata: 1\nretry: 5\nid\nretry\n\n"}, want: []event{plain("data: 1\n\n")}},
	"A9 blank data is no payload":                          {parts: []string{"data:  \t\n\ndata:\ndata: \n\ndata:  null \n\n"}},
	"A9 a name without data is no payload and is not kept": {parts: []string{"event: ping\n\ndata: 1\n\n"}, want: []event{plain("data: 1\n\n")}},
	"G3 upstream comments are dropped":                     {parts: []string{": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n:ok\n:\n" + chunk("a") + fin + done}, want: []event{plain(chunk("a")), plain(fin), plain(done)}},
	"G3 a comment within an event is dropped":              {parts: []string{"event: e\n: hi\ndata: 1\n: ho\n\n"}, want: []event{{Raw: "event: e\ndata: 1\n\n", Data: "1", Name: "e"}}},
	"G7 a comment and data in one read":                    {parts: []string{": hb\n\n" + chunk("a")}, want: []event{plain(chunk("a"))}},
	"G7 a named event keeps its name":                      {parts: []string{"event: ping\ndata: {}\n\n"}, want: []event{{Raw: "event: ping\ndata: {}\n\n", Data: "{}", Name: "ping"}}},
	"the last of several names counts":                     {parts: []string{"event: a\nevent: b\ndata: 1\n\n"}, want: []event{{Raw: "event: a\nevent: b\ndata: 1\n\n", Data: "1", Name: "b"}}},
	"CR LF becomes LF":                                     {parts: []string{"event: e\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n"}, want: []event{{Raw: "event: e\ndata: 1\n\n", Data: "1", Name: "e"}, plain("data: 2\n\n")}},
	"CR LF over two reads is one end of line":              {parts: []string{"data: 1\r", "\ndata: 2\r", "\n\r", "\ndata: 3\n\n"}, want: []event{{Raw: "data: 1\ndata: 2\n\n", Data: "1\n2"}, plain("data: 3\n\n")}},
	"a lone CR ends a line":                                {parts: []string{"data: 1\r\rdata: 2\r\r"}, want: []event{plain("data: 1\n\n"), plain("data: 2\n\n")}},
	"all three line ends mixed":                            {parts: []string{"data: 1\ndata: 2\r\ndata: 3\r\ndata: 4\r\n\n"}, want: []event{{Raw: "data: 1\ndata: 2\ndata: 3\ndata: 4\n\n", Data: "1\n2\n3\n4"}}},
	"extra blank lines are no events":                      {parts: []string{"\n\n\r\n\rdata: 1\n\n\n\n\n"}, want: []event{plain("data: 1\n\n")}},
	"an error in a field of its own is an event of that name": {
		parts: []string{"error: {\"code\":503}\n\n"},
		want:  []event{{Raw: "error: {\"code\":503}\n\n", Data: `{"code":503}`, Name: "error"}},
	},
	"an error in a field of its own, at the end": {
		parts: []string{chunk("a") + "error: {\"code\":503}"},
		want:  []event{plain(chunk("a")), {Raw: "error: {\"code\":503}\n\n", Data: `{"code":503}`, Name: "error"}},
	},
	"an error field without an object is none": {parts: []string{"error: null\n\nerror: x\ndata: 1\n\nerror\n\n"}, want: []event{{Raw: "error: x\ndata: 1\n\n", Data: "1"}}},
	"unknown fields pass":                      {parts: []string{"foo: bar\ndata: 1\n\n"}, want: []event{{Raw: "foo: bar\ndata: 1\n\n", Data: "1"}}},
}

func TestScanner(t *testing.T) {
	for name, tc := range scanCases {
		t.Run(name, func(t *testing.T) {
			whole := strings.Join(tc.parts, "")
			splits := map[string][]string{"as given": tc.parts, "in one read": {whole}}
			if len(whole) < 4096 {
				splits["byte by byte"] = byteByByte(whole)
			}
			for split, parts := range splits {
				got, err := scan(sse.NewScanner(0), parts...)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: events (-want +got):\n%s", split, diff)
				}
				if !errors.Is(err, tc.wantErr) {
					t.Errorf("%s: error %v, want %v", split, err, tc.wantErr)
				}
			}
		})
	}
}

func byteByByte(s string) []string {
	var out []string
	for i := range len(s) {
		out = append(out, s[i:i+1])
	}
	return out
}

func TestScannerFillsFromAReader(t *testing.T) {
	text := "\ufeff" + chunk(strings.Repeat("北", 5000)) + ": hi\r\n\r\n" + chunk("x") + fin + done
	want, err := scan(sse.NewScanner(0), text)
	if err != nil || len(want) != 4 {
		t.Fatalf("%d events, error %v", len(want), err)
	}
	for name, r := range map[string]io.Reader{
		"one byte at a time": iotest.OneByteReader(strings.NewReader(text)),
		"halves":             iotest.HalfReader(strings.NewReader(text)),
		"data with EOF":      iotest.DataErrReader(strings.NewReader(text)),
	} {
		var s sse.Scanner
		var got []event
		for readErr := error(nil); readErr == nil; {
			_, readErr = s.Fill(r)
			for ev, ok := s.Next(); ok; ev, ok = s.Next() {
				got = append(got, copyOf(ev))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if s.Pending() != 0 {
			t.Errorf("%s: %d bytes pending", name, s.Pending())
		}
	}
}

func TestScannerEndsALineAtALoneCRAtOnce(t *testing.T) {
	var s sse.Scanner
	s.Feed([]byte("data: 1\r\r"))
	if ev, ok := s.Next(); !ok || string(ev.Data) != "1" {
		t.Errorf("event %q %v, want it without waiting for another byte", ev.Data, ok)
	}
}

func TestScannerRefusesAnEventOverItsCap(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		want    int
		wantErr error
	}{
		"an event at the cap":                  {text: "data: 1\n\ndata: 12345678\n\n", want: 2},
		"a line over the cap":                  {text: "data: 1\n\ndata: 1234567890\n\n", want: 1, wantErr: sse.ErrEventTooLarge},
		"a line over the cap without its end":  {text: "data: 1\n\ndata: 1234567890", want: 1, wantErr: sse.ErrEventTooLarge},
		"lines that pass the cap together":     {text: "data: 123\ndata: 4567\n\n", wantErr: sse.ErrEventTooLarge},
		"a comment over the cap":               {text: ": 12345678901234567\n", wantErr: sse.ErrEventTooLarge},
		"comments count only while they last":  {text: "data: 1\n: 12345\n: 12345\n: 12345\n\n", want: 1},
		"many small events may pass it in sum": {text: strings.Repeat("data: 1\n\n", 50), want: 50},
	} {
		for _, parts := range [][]string{{tc.text}, byteByByte(tc.text)} {
			s := sse.NewScanner(15)
			got, err := scan(s, parts...)
			if len(got) != tc.want || !errors.Is(err, tc.wantErr) {
				t.Errorf("%s: %d events and %v, want %d and %v", name, len(got), err, tc.want, tc.wantErr)
			}
			if again, err := scan(s, "data: 1\n\n"); tc.wantErr != nil && (len(again) != 0 || !errors.Is(err, tc.wantErr)) {
				t.Errorf("%s: the error does not stay", name)
			}
		}
	}
}

func TestScannerKnowsWhetherAnEventIsPending(t *testing.T) {
	var s sse.Scanner
	s.Feed([]byte("data: 1\n\ndata: 2"))
	s.Next()
	s.Next()
	if got := s.Pending(); got != len("data: 2") {
		t.Errorf("%d bytes pending", got)
	}
}

func BenchmarkScanner(b *testing.B) {
	for name, one := range map[string]string{
		"chunks":       chunk("token"),
		"chunks CR LF": strings.ReplaceAll(chunk("token"), "\n", "\r\n"),
		"4 MiB event":  chunk(strings.Repeat("a", 4<<20)),
	} {
		b.Run(name, func(b *testing.B) {
			var s sse.Scanner
			text := []byte(one)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s.Feed(text)
				if _, ok := s.Next(); !ok {
					b.Fatal("no event")
				}
			}
		})
	}
}
