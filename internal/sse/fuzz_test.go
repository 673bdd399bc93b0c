package sse_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/sse"
)

// FuzzScannerAnySplitSameEvents says that a split of the bytes changes nothing, and that what comes out is what went in but
// for what the design changes.
func FuzzScannerAnySplitSameEvents(f *testing.F) {
	for _, tc := range scanCases {
		if whole := strings.Join(tc.parts, ""); len(whole) < 4096 {
			f.Add([]byte(whole), uint16(7), uint8(3))
			f.Add([]byte(whole), uint16(len(tc.parts)), uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint16, step uint8) {
		parts := split(text, int(at), int(step)+1)
		for _, limit := range []int{64, 0} { // the small one is met as well
			want, wantErr := scan(sse.NewScanner(limit), string(text))
			got, err := scan(sse.NewScanner(limit), parts...)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, wantErr) {
				t.Fatalf("split %q: error %v, want %v (-want +got):\n%s", parts, err, wantErr, diff)
			}
			checkShape(t, got)
		}
		want, wantErr := reference(string(text))
		got, err := scan(sse.NewScanner(0), parts...)
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, wantErr) {
			t.Fatalf("%q: error %v, the reference says %v (-want +got):\n%s", text, err, wantErr, diff)
		}
	})
}

// split cuts once somewhere, then regularly.
func split(text []byte, at, step int) []string {
	cut := min(at, len(text))
	parts := []string{string(text[:cut])}
	for rest := text[cut:]; len(rest) > 0; {
		n := min(step, len(rest))
		parts = append(parts, string(rest[:n]))
		rest = rest[n:]
	}
	return parts
}

// reference does to a whole stream at once, slowly and by the letter, what the Scanner promises to do piece by piece.
func reference(text string) (events []event, err error) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	tail := lines[len(lines)-1] // without its line end
	var block []string
	for _, line := range lines[:len(lines)-1] {
		switch {
		case line != "" && !goesNoFurther(line):
			block = append(block, line)
		case line == "":
			if ev, ok := referenceEvent(block); ok {
				events = append(events, ev)
			}
			block = nil
		}
	}
	cut := tail != "" && !goesNoFurther(tail)
	if strings.HasPrefix(tail, "data:") || strings.HasPrefix(tail, "error:") {
		block = append(block, tail)
	}
	ev, ok := referenceEvent(block)
	switch {
	case ok && (ev.Data == "[DONE]" || json.Valid([]byte(ev.Data))):
		return append(events, ev), nil
	case ok || cut:
		return events, sse.ErrCut
	}
	return events, nil
}

// referenceField splits a line into field and value.
func referenceField(line string) (name, value string) {
	name, value, _ = strings.Cut(line, ":")
	return name, strings.TrimPrefix(value, " ")
}

// goesNoFurther are comments, and the fields id and retry.
func goesNoFurther(line string) bool {
	name, _ := referenceField(line)
	return name == "" || name == "id" || name == "retry"
}

// referenceEvent makes an event of its lines, where they carry a payload.
func referenceEvent(lines []string) (event, bool) {
	ev := event{Raw: strings.Join(lines, "\n") + "\n\n"}
	var data []string
	for _, line := range lines {
		switch name, value := referenceField(line); name {
		case "data":
			data = append(data, value)
		case "event":
			ev.Name = value
		case "error": // of llama.cpp's
			if strings.HasPrefix(value, "{") {
				data, ev.Name = append(data, value), name
			}
		}
	}
	ev.Data = strings.Join(data, "\n")
	blank := strings.TrimSpace(ev.Data)
	return ev, blank != "" && blank != "null"
}

// checkShape states what every event must be, and that events are a fixed point of the scanner.
func checkShape(t *testing.T, events []event) {
	t.Helper()
	var all strings.Builder
	for _, ev := range events {
		body, ok := strings.CutSuffix(ev.Raw, "\n\n")
		if !ok || strings.Contains(body, "\n\n") || strings.Contains(ev.Raw, "\r") || strings.HasPrefix(ev.Raw, "\n") {
			t.Errorf("not one normalised event: %q", ev.Raw)
		}
		if strings.TrimSpace(ev.Data) == "" {
			t.Errorf("no payload: %q", ev.Raw)
		}
		all.WriteString(ev.Raw)
	}
	if again, err := scan(sse.NewScanner(0), "\ufeff"+all.String()); err != nil || !cmp.Equal(events, again) {
		t.Errorf("not a fixed point: %v\n%s", err, cmp.Diff(events, again))
	}
}
