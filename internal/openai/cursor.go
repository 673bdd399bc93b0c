package openai

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// maxDepth bounds nesting, as encoding/json does.
const maxDepth = 10_000

// cursor walks over strict JSON (RFC 8259, valid UTF-8) without decoding or copying it; a loose one takes more. Request
// bodies of many megabytes pass through it, and every chunk of every stream; a general tokenizer would cost more than the
// rest of the work on either. The first violation makes it bad, and a bad cursor yields nothing more, so that only the end
// of a walk needs a check.
//
//	for c.enter('{'); c.more('}'); {
//		switch string(c.name()) {
//		case "model":
//			model = c.value()
//		default:
//			c.value()
//		}
//	}
//	ok := c.end()
type cursor struct {
	b     []byte
	i     int
	bad   bool
	loose bool // takes what backends are known to write: invalid UTF-8, NaN and Infinity
	comma bool // a value came before: the next member needs a comma
	depth int
	odd   []Span // where a loose cursor has passed NaN and Infinity, sign included
}

// peek returns the next byte that is no white space, or 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

func (c *cursor) expect(ch byte) {
	if c.bad || c.peek() != ch {
		c.bad = true
		return
	}
	c.i++
}

// enter steps into an object '{' or an array '['.
func (c *cursor) enter(open byte) {
	c.expect(open)
	c.comma = false
	if c.depth++; c.depth > maxDepth {
		c.bad = true
	}
}

// more says whether another member or element follows before the closing byte, which it consumes otherwise.
func (c *cursor) more(closing byte) bool {
	if !c.bad && c.peek() == closing {
		c.i++
		c.depth--
		c.comma = true
		return false
	}
	if c.comma {
		c.expect(',')
	}
	return !c.bad
}

// name consumes a member's name and its colon. It returns the name without escapes.
func (c *cursor) name() []byte {
	raw, escaped := c.str()
	c.expect(':')
	if c.bad {
		return nil
	}
	if escaped {
		return []byte(unquote(c.b[raw.Start:raw.End]))
	}
	return c.b[raw.Start+1 : raw.End-1]
}

// value consumes any value and returns where it stands; none if it is malformed.
func (c *cursor) value() Span {
	ch := c.peek()
	from := c.i
	switch {
	case ch == '"':
		c.str()
	case ch == '{':
		for c.enter('{'); c.more('}'); {
			c.str()
			c.expect(':')
			c.value()
		}
	case ch == '[':
		for c.enter('['); c.more(']'); {
			c.value()
		}
	case ch == '-' || '0' <= ch && ch <= '9':
		c.number()
	default:
		c.word()
	}
	c.comma = true
	if c.bad {
		return Span{}
	}
	return Span{from, c.i}
}

// end says whether the walk was over one whole value, with nothing behind it.
func (c *cursor) end() bool { return !c.bad && c.peek() == 0 && c.i == len(c.b) }

func (c *cursor) word() {
	for _, w := range [...]string{"null", "true", "false", "NaN", "Infinity"} {
		if end := c.i + len(w); end <= len(c.b) && string(c.b[c.i:end]) == w {
			if w[0] < 'a' {
				c.oddWord(end)
			}
			c.i = end
			return
		}
	}
	c.bad = true
}

// oddWord takes NaN or Infinity, which ends there.
func (c *cursor) oddWord(end int) {
	from := c.i
	if from > 0 && c.b[from-1] == '-' {
		from--
	}
	c.bad = c.bad || !c.loose
	c.odd = append(c.odd, Span{from, end})
}

// strict returns what a loose cursor takes as JSON: null in place of NaN and Infinity, as JavaScript writes them.
func strict(body []byte) []byte {
	c := cursor{b: body, loose: true}
	c.value()
	if len(c.odd) == 0 {
		return body
	}
	var out []byte
	from := 0
	for _, at := range c.odd {
		out = append(append(out, body[from:at.Start]...), "null"...)
		from = at.End
	}
	return append(out, body[from:]...)
}

func (c *cursor) number() {
	if c.b[c.i] == '-' {
		c.i++
	}
	if c.at('I') {
		c.word()
		return
	}
	if c.at('0') {
		c.i++
	} else {
		c.digits()
	}
	if c.at('.') {
		c.i++
		c.digits()
	}
	if c.at('e') || c.at('E') {
		c.i++
		if c.at('+') || c.at('-') {
			c.i++
		}
		c.digits()
	}
}

func (c *cursor) at(ch byte) bool { return c.i < len(c.b) && c.b[c.i] == ch }

func (c *cursor) digits() {
	from := c.i
	for c.i < len(c.b) && '0' <= c.b[c.i] && c.b[c.i] <= '9' {
		c.i++
	}
	if c.i == from {
		c.bad = true
	}
}

// str consumes a string and returns where it stands, quotes included, and whether it has escapes.
func (c *cursor) str() (raw Span, escaped bool) {
	c.expect('"')
	raw.Start = c.i - 1
	for !c.bad {
		c.i += plain(c.b[c.i:])
		if c.i == len(c.b) {
			break
		}
		switch ch := c.b[c.i]; {
		case ch == '"':
			c.i++
			raw.End = c.i
			return raw, escaped
		case ch == '\\':
			escaped = true
			c.escape()
		case ch < ' ':
			c.bad = true
		default:
			c.runes()
		}
	}
	c.bad = true
	return Span{}, false
}

// runes consumes characters beyond ASCII; they come in rows, so that going back for each one would be slow.
func (c *cursor) runes() {
	for c.i < len(c.b) && c.b[c.i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(c.b[c.i:])
		if r == utf8.RuneError && size == 1 && !c.loose {
			c.bad = true
			return
		}
		c.i += size
	}
}

func (c *cursor) escape() {
	rest := c.b[c.i+1:]
	switch {
	case len(rest) == 0:
		c.bad = true
	case rest[0] == 'u':
		if c.bad = len(rest) < 5 || !isHex(rest[1:5]); !c.bad {
			c.i += 6
		}
	default:
		switch rest[0] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			c.i += 2
		default:
			c.bad = true
		}
	}
}

func isHex(b []byte) bool {
	for _, ch := range b {
		if (ch < '0' || ch > '9') && (ch|0x20 < 'a' || ch|0x20 > 'f') {
			return false
		}
	}
	return true
}

// plain returns how many bytes of a string's inside need no attention: ASCII, no control character, no quote, no
// backslash. It looks at 32 bytes at a time, then at eight, then at one.
func plain(b []byte) int {
	i := 0
	for ; i+32 <= len(b); i += 32 {
		p := b[i : i+32 : i+32]
		if marks(binary.LittleEndian.Uint64(p[0:8]))|marks(binary.LittleEndian.Uint64(p[8:16]))|
			marks(binary.LittleEndian.Uint64(p[16:24]))|marks(binary.LittleEndian.Uint64(p[24:32])) != 0 {
			break
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if m := marks(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if ch := b[i]; ch < ' ' || ch >= utf8.RuneSelf || ch == '"' || ch == '\\' {
			break
		}
	}
	return i
}

// marks sets the high bit of each of the eight bytes that needs attention. Subtracting borrows from the byte above only
// where a byte is marked itself, so the lowest mark is always a true one; those above it may be false.
func marks(w uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	return (w | (w - ones*' ') | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) & highs
}

// unquote decodes a valid JSON string.
func unquote(raw []byte) string {
	if s := raw[1 : len(raw)-1]; plain(s) == len(s) {
		return string(s)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // the cursor has checked it
	return s
}

// isString says whether a value is a string.
func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }

// isNull says whether a value is null, or was not there at all.
func isNull(v []byte) bool { return len(v) == 0 || v[0] == 'n' }

// filled says whether a value holds something: a string, an array or an object that is not empty.
func filled(v []byte) bool {
	if len(v) < 2 {
		return false
	}
	switch v[0] {
	case '"':
		return len(v) > 2
	case '[', '{':
		inside := cursor{b: v, i: 1}
		return inside.peek() != v[len(v)-1]
	}
	return false
}

// isFault says whether the value of a member named error tells of one: some servers always write the member, and leave it
// empty.
func isFault(v []byte) bool {
	switch {
	case len(v) == 0:
		return false
	case v[0] == '"' || v[0] == '{' || v[0] == '[':
		return filled(v)
	}
	return string(v) != "null" && string(v) != "false" && string(v) != "0"
}

// in returns the bytes at a span.
func (s Span) in(b []byte) []byte { return b[s.Start:s.End] }
