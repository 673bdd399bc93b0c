package v1alpha1

import (
	"fmt"
	"regexp"
	"time"
)

// Duration is a span of time as text: one to four whole numbers of up to five digits, each with a unit of h, m, s or ms.
// Examples: "250ms", "30s", "15m", "1h30m", "0s". There are no signs, no fractions and no days; a week is "168h".
//
// Rules that compute with a duration let pass what is none: the rule of this type refuses it with a sentence, and a conversion that
// fails would only add a message that nobody understands.
//
// It is text and not metav1.Duration so that a bad value that is already stored is a verdict on its one object: a type
// that fails to decode would fail the whole list for every reader.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=28
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="A duration is whole numbers with a unit of h, m, s or ms, such as 250ms, 30s or 1h30m."
type Duration string

var durationPattern = regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)

// Parse returns the span. It accepts exactly what the schema accepts, so the result is never negative and never
// overflows. The empty string is an error: whether an absent field has a default is not this type's affair.
func (d Duration) Parse() (time.Duration, error) {
	if !durationPattern.MatchString(string(d)) {
		return 0, fmt.Errorf("%.40q is not a duration: want whole numbers with a unit of h, m, s or ms, such as 250ms, 30s or 1h30m", string(d))
	}
	span, err := time.ParseDuration(string(d))
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: %w", string(d), err)
	}
	return span, nil
}

// FormatDuration writes a span in the form that Duration accepts. It rounds up to whole milliseconds, so that what is left of
// a wait never reads as less than it is; negative spans are "0s", and spans beyond the largest that fits end there.
func FormatDuration(span time.Duration) Duration {
	const maxHours = 99999
	span = min(max(span, 0), maxHours*time.Hour)
	if rest := span % time.Millisecond; rest > 0 {
		span += time.Millisecond - rest
	}
	if span == 0 {
		return "0s"
	}
	var text string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := span / unit.size; n > 0 {
			text += fmt.Sprintf("%d%s", n, unit.name)
			span %= unit.size
		}
	}
	return Duration(text)
}
