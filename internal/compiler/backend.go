package compiler

import (
	"fmt"
	"strings"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// maxLabel is the length of a DNS label.
const maxLabel = 63

// backendDraft is a backend on its way into the table.
type backendDraft struct {
	route   *routeDraft
	index   int
	spec    *v1alpha1.Backend
	verdict *BackendVerdict
	out     *table.Backend
}

// backendRules are what a backend must keep to, in the order of its spec. Each writes its part of the entry.
var backendRules = []func(*backendDraft){
	readName,
	readTarget,
	readPhysicalModel,
	readRegime,
	readCapacityGroup,
	readLimits,
	readAuth,
	readTLS,
	readHeaders,
	readFailure,
	readSaturation,
}

// read runs the rules and fills in the verdict.
func (b *backendDraft) read() {
	b.verdict.Name = b.spec.Name
	for _, rule := range backendRules {
		rule(b)
	}
	b.out.Probe = table.ProbeMode(b.route.spec.Recovery.Probe)
	b.verdict.Failure, b.verdict.Saturation, b.verdict.MaxInFlight = b.out.Failure, b.out.Saturation, b.out.MaxInFlight
	if b.verdict.Usable = len(b.verdict.Problems) == 0; b.verdict.Usable {
		b.out.ID = b.route.reader.identifier.id(b.route.verdict.Key.Namespace, b.out)
		b.verdict.ID = b.out.ID
	}
}

func (b *backendDraft) reading() *reader { return b.route.reader }

// refuse records a mistake in the backend's own fields. field is relative to the backend, message a sentence.
func (b *backendDraft) refuse(reason v1alpha1.ConditionReason, field, message string) {
	b.problem(v1alpha1.ConditionAccepted, reason, field, message)
}

// unresolved records that something the backend refers to is not there or not usable.
func (b *backendDraft) unresolved(reason v1alpha1.ConditionReason, field, message string) {
	b.problem(v1alpha1.ConditionResolvedRefs, reason, field, message)
}

func (b *backendDraft) problem(c v1alpha1.ConditionType, reason v1alpha1.ConditionReason, field, message string) {
	b.verdict.Problems = append(b.verdict.Problems, Problem{
		Condition: c,
		Reason:    reason,
		Field:     fmt.Sprintf("spec.chain[%d].%s", b.index, field),
		Message:   fmt.Sprintf("Backend %q is left out: %s", b.spec.Name, strings.ToLower(message[:1])+message[1:]),
	})
}

func readName(b *backendDraft) {
	b.out.Name = b.spec.Name
	if !isLabel(b.spec.Name) {
		b.refuse(v1alpha1.ReasonInvalidSpec, "name",
			"The name must be a DNS label: at most 63 lower-case letters, digits and '-', with a letter or digit at both ends.")
		return
	}
	for _, earlier := range b.route.spec.Chain[:b.index] {
		if earlier.Name == b.spec.Name {
			b.refuse(v1alpha1.ReasonInvalidSpec, "name", "The name is taken by an earlier backend of the chain; names are unique.")
			return
		}
	}
}

func readPhysicalModel(b *backendDraft) {
	b.out.Model = b.spec.Model
	if b.spec.Model == "" {
		b.out.Model = b.route.verdict.Model
	}
	if len([]rune(b.spec.Model)) > maxModelLength || strings.ContainsFunc(b.spec.Model, isControl) {
		b.refuse(v1alpha1.ReasonInvalidSpec, "model",
			fmt.Sprintf("The model must have at most %d characters and no control characters.", maxModelLength))
	}
}

func readRegime(b *backendDraft) {
	b.out.Regime = string(b.spec.Regime)
	if !isLabel(b.out.Regime) {
		b.refuse(v1alpha1.ReasonInvalidSpec, "regime", "The regime must be a DNS label, such as idle, contended or hosted.")
	}
}

func readCapacityGroup(b *backendDraft) {
	group := b.spec.CapacityGroup
	if group == "" {
		return
	}
	b.out.Group = b.route.verdict.Key.Namespace + "/" + group
	if !isLabelValue(group) {
		b.refuse(v1alpha1.ReasonInvalidSpec, "capacityGroup",
			"The capacity group must be a label value: at most 63 letters, digits and -_., with a letter or digit at both ends.")
	}
}

func readLimits(b *backendDraft) {
	b.out.MaxInFlight = number(b, "maxInFlight", b.spec.MaxInFlight, 0, maxCount)
	b.out.ContextWindow = int64(number(b, "contextWindow", b.spec.ContextWindow, 0, maxContextWindow))
}

func readFailure(b *backendDraft) {
	b.out.Failure = b.route.failure
	own := b.spec.Failure
	if own == nil {
		return
	}
	if own.Threshold != nil {
		b.out.Failure.Threshold = number(b, "failure.threshold", *own.Threshold, 1, maxThreshold)
	}
	overrideCooldown(b, "failure.cooldown", own.Cooldown, &b.out.Failure.Cooldown)
}

func readSaturation(b *backendDraft) {
	settings := b.route.saturation
	if own := b.spec.Saturation; own != nil {
		if own.Threshold != nil {
			settings.Threshold = number(b, "saturation.threshold", *own.Threshold, 1, maxThreshold)
		}
		overrideCooldown(b, "saturation.cooldown", own.Cooldown, &settings.Cooldown)
		override(b, "saturation.slowAfterPerKilotoken", own.SlowAfterPerKilotoken, &settings.SlowAfterPerKilotoken)
		override(b, "saturation.coldStartGrace", own.ColdStartGrace, &settings.ColdStartGrace)
		if override(b, "saturation.slowAfter", own.SlowAfter, &settings.SlowAfter) {
			settings.slowAfterSet = true
		}
		if override(b, "saturation.nonStreamingSlowAfter", own.NonStreamingSlowAfter, &settings.NonStreamingSlowAfter) {
			settings.nonStreamingSet = true
		}
	}
	b.out.Saturation = settings.derive(len(b.route.spec.Chain))
}

// isLabelValue is true for the value of a Kubernetes label that is not empty.
func isLabelValue(s string) bool {
	ends := func(c byte) bool { return isAlphanumeric(rune(c)) }
	return s != "" && len(s) <= maxLabel && ends(s[0]) && ends(s[len(s)-1]) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !isAlphanumeric(r) && !strings.ContainsRune("-_.", r) })
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// isLabel is true for a DNS label. It is not the regular expression of apimachinery because every backend of a large
// table passes here.
func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
