package openai_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/openai"
)

// arrival is when the headers of the cases came in; nothing here reads a clock.
var arrival = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var retryAfterCases = map[string]struct {
	header http.Header
	want   time.Duration
	absent bool
}{
	"B11 seconds":                     {header: http.Header{"Retry-After": {"120"}}, want: 2 * time.Minute},
	"B11 a fraction":                  {header: http.Header{"Retry-After": {"1.5"}}, want: 1500 * time.Millisecond},
	"zero is not absent":              {header: http.Header{"Retry-After": {"0"}}},
	"B11 a date within a day":         {header: http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:00:30 GMT"}}, want: 30 * time.Second},
	"B11 a date in decades":           {header: http.Header{"Retry-After": {"Wed, 21 Oct 2099 07:28:00 GMT"}}, want: openai.MaxRetryAfter},
	"B11 a date in the past":          {header: http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}}},
	"B11 a negative number":           {header: http.Header{"Retry-After": {"-100"}}},
	"B11 nan":                         {header: http.Header{"Retry-After": {"nan"}}, absent: true},
	"infinity":                        {header: http.Header{"Retry-After": {"inf"}}, absent: true},
	"hexadecimal":                     {header: http.Header{"Retry-After": {"0x10"}}, absent: true},
	"more than any number":            {header: http.Header{"Retry-After": {strings.Repeat("9", 400)}}, want: openai.MaxRetryAfter},
	"two points":                      {header: http.Header{"Retry-After": {"1.2.3"}}, absent: true},
	"a sign alone":                    {header: http.Header{"Retry-After": {"-"}}, absent: true},
	"B11 a word":                      {header: http.Header{"Retry-After": {"soon"}}, absent: true},
	"B11 empty":                       {header: http.Header{"Retry-After": {""}}, absent: true},
	"blank around":                    {header: http.Header{"Retry-After": {" 3 "}}, want: 3 * time.Second},
	"B11 two headers":                 {header: http.Header{"Retry-After": {"3", "10"}}, want: 10 * time.Second},
	"two headers, one unreadable":     {header: http.Header{"Retry-After": {"soon", "3"}}, want: 3 * time.Second},
	"two headers, folded into one":    {header: http.Header{"Retry-After": {"3, 10"}}, want: 10 * time.Second},
	"a date that is none":             {header: http.Header{"Retry-After": {"Wed, 41 Oct 2099 07:28:00 GMT"}}, absent: true},
	"B11 milliseconds":                {header: http.Header{"Retry-After-Ms": {"1500"}}, want: 1500 * time.Millisecond},
	"milliseconds are more exact":     {header: http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, want: 1500 * time.Millisecond},
	"unreadable milliseconds":         {header: http.Header{"Retry-After-Ms": {"x"}, "Retry-After": {"2"}}, want: 2 * time.Second},
	"B11 the later of two limits":     {header: http.Header{"X-Ratelimit-Reset-Requests": {"17ms"}, "X-Ratelimit-Reset-Tokens": {"6m0s"}}, want: 6 * time.Minute},
	"B11 a long duration":             {header: http.Header{"X-Ratelimit-Reset-Requests": {"23h47m36.648s"}}, want: 23*time.Hour + 47*time.Minute + 36*time.Second + 648*time.Millisecond},
	"B11 ISO time":                    {header: http.Header{"X-Ratelimit-Reset-Tokens": {"2026-11-30T12:01:00Z"}}, want: time.Minute},
	"ISO time under Anthropic's name": {header: http.Header{"Anthropic-Ratelimit-Tokens-Reset": {"2026-11-30T12:01:00Z"}}, want: time.Minute},
	"Retry-After goes before resets":  {header: http.Header{"Retry-After": {"2"}, "X-Ratelimit-Reset-Tokens": {"6m0s"}}, want: 2 * time.Second},
	"a duration of years":             {header: http.Header{"X-Ratelimit-Reset-Tokens": {"99999h"}}, want: openai.MaxRetryAfter},
	"B11 nothing":                     {header: http.Header{}, absent: true},
	"no header at all":                {absent: true},
}

func TestParseRetryAfter(t *testing.T) {
	for name, tc := range retryAfterCases {
		t.Run(name, func(t *testing.T) {
			got, ok := openai.ParseRetryAfter(tc.header, arrival)
			if ok == tc.absent || got.Round(time.Microsecond) != tc.want {
				t.Errorf("%v %v, want %v %v", got, ok, tc.want, !tc.absent)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, tc := range retryAfterCases {
		for name, values := range tc.header {
			f.Add(name, values[0])
		}
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		h := http.Header{}
		h.Set(name, value)
		d, ok := openai.ParseRetryAfter(h, arrival)
		if d < 0 || d > openai.MaxRetryAfter || !ok && d != 0 {
			t.Errorf("%v %v", d, ok)
		}
	})
}
