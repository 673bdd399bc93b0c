package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// The canonical JSON of a shard has each route in a line of its own, so that after an edit the others need not be encoded or
// decoded again: no line break stands within the JSON of a route. It ends with a line break, as its head does.
var (
	linesHead = fmt.Appendf(nil, "{\"schema\":%d,\"routes\":[\n", Schema)
	linesTail = []byte("\n]}\n")
	lineBreak = []byte(",\n")
)

// canonical puts the lines together.
func (s *Shard) canonical() []byte {
	size := len(linesHead) + len(linesTail)
	for _, line := range s.lines {
		size += len(line) + len(lineBreak)
	}
	all := append(make([]byte, 0, size), linesHead...)
	for i, line := range s.lines {
		if i > 0 {
			all = append(all, lineBreak...)
		}
		all = append(all, line...)
	}
	return append(all, linesTail...)
}

// encodeLines fills in the lines. Both shards are sorted, so that a route which is in both is found on the way.
func (s *Shard) encodeLines(known *Shard) error {
	var was []*Route
	if known != nil && len(known.lines) == len(known.Routes) {
		was = known.Routes
	}
	s.lines = make([][]byte, len(s.Routes))
	at := 0
	for i, r := range s.Routes {
		for at < len(was) && was[at] != r && compareRoutes(was[at], r) < 0 {
			at++
		}
		if at < len(was) && was[at] == r {
			s.lines[i] = known.lines[at]
			continue
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		s.lines[i] = line
	}
	return nil
}

// decodeLines reads what canonical wrote; nil where it is something else.
func decodeLines(canonical []byte, known *Shard) *Shard {
	rest, hasHead := bytes.CutPrefix(canonical, linesHead)
	rest, hasTail := bytes.CutSuffix(rest, linesTail)
	if !hasHead || !hasTail {
		return nil
	}
	s := &Shard{Schema: Schema, Routes: []*Route{}}
	if len(rest) > 0 {
		s.lines = bytes.Split(rest, lineBreak)
	}
	if known == nil || len(known.lines) != len(known.Routes) {
		known = &Shard{}
	}
	at := 0 // in the known ones, which are in the same order
	for _, line := range s.lines {
		ahead := slices.IndexFunc(known.lines[at:], func(l []byte) bool { return bytes.Equal(l, line) })
		if ahead >= 0 {
			at += ahead + 1
			s.Routes = append(s.Routes, known.Routes[at-1])
			continue
		}
		var r *Route
		if err := json.Unmarshal(line, &r); err != nil || r == nil {
			return nil
		}
		s.Routes = append(s.Routes, r)
	}
	return s
}
