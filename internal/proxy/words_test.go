package proxy

import (
	"strings"
	"testing"
)

// What is no word makes a prompt neither longer than a window nor slow to read.
func TestWords(t *testing.T) {
	prose, picture := strings.Repeat("some words, ", 200), strings.Repeat("iVBORw0KGgo/", 200)
	cases := map[string]struct {
		words, others string
		want          int // beyond the words
	}{
		"plain text":                {words: prose},
		"letters as they are":       {words: strings.Repeat("п", 900)},
		"escaped letters":           {others: strings.Repeat(`\u043f`, 900), want: 1800},
		"escaped backslashes":       {others: strings.Repeat(`\\u`, 900), want: 900},
		"those beside an image":     {words: `;base64,`, others: `"` + picture + `"` + strings.Repeat(`\\u`, 900), want: (2+2700+8)/3 - 8},
		"an image":                  {words: `{"url":"";base64,` + prose, others: `"data:image/png;base64,` + picture + `"`, want: 2},
		"one from PHP":              {words: `"x";base64,` + prose, others: `"data:image\/png;base64,` + strings.ReplaceAll(picture, "/", `\/`) + `"`, want: 2},
		"one from .NET":             {words: `"x";base64,` + strings.Repeat(`\u043f`, 900), others: `"data:image/png;base64,` + strings.ReplaceAll(picture, "w", `\u002B`) + `"`, want: 2 - 3600},
		"one from Gson":             {words: `"x";base64,` + prose, others: `"data:image/png;base64,` + picture + `\u003d\u003d"`, want: 2},
		"other escapes beside one":  {words: `;base64,"` + strings.Repeat(`\u0022\\`, 200) + `"`, want: -800},
		"sound":                     {words: `"input_audio"`, others: `"` + picture + `"`, want: 2},
		"an escaped text behind it": {words: `;base64,"` + strings.Repeat(`\n`, 900), others: ""},
		"no mark of an image":       {words: picture},
		"a short image":             {words: `"data:image/png;base64,` + picture[:100] + `"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, want := words([]byte(tc.words+tc.others), hasEncoded([]byte(tc.words+tc.others))), int64(len(tc.words)+tc.want); got != want {
				t.Errorf("%d bytes of words, want %d", got, want)
			}
		})
	}
}
