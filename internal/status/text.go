package status

import (
	"time"
	"unicode/utf8"
)

// cut bounds a text to a number of characters, which is what the schema counts: a model may have 253 of any script.
func cut(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	end := 0
	for range limit - 1 {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end] + "…"
}

// cutBytes bounds a text to a number of bytes, at a boundary between characters.
func cutBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// clock is an instant in the one form that status uses.
func clock(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// timeOfDay is an instant in the short form of Events: the time alone within a day of now.
func timeOfDay(at, now time.Time) string {
	if at.Sub(now).Abs() < 24*time.Hour {
		return at.UTC().Format("15:04Z")
	}
	return at.UTC().Format("2006-01-02 15:04Z")
}
