package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Skew is what is not in force because the served CRD and this release do not know the same fields.
type Skew struct {
	// Dropped are fields of this release that the CRD lacks, sorted: whatever an object set there is lost.
	Dropped []string
	// Ignored are fields that the object sets and this release does not know, sorted.
	Ignored []string
}

// putSkew tells of a skew, or takes back that there was one. What is stored stays while nobody knows.
func (s *conditionSet) putSkew(skew *Skew) {
	switch {
	case skew == nil:
	case len(skew.Dropped)+len(skew.Ignored) == 0:
		meta.RemoveStatusCondition(&s.all, string(v1alpha1.ConditionSchemaSkew))
	default:
		s.put(v1alpha1.ConditionSchemaSkew, skewed(skew))
	}
}

// skewed is True, and there, while something that an object sets, or could set, does nothing.
func skewed(s *Skew) finding {
	reason := v1alpha1.ReasonCRDOlder
	var told []string
	if len(s.Dropped) > 0 {
		told = append(told, fmt.Sprintf("The served CRD is older than the manager, so the API server drops %s; apply the CRDs of the manager's release, "+
			"then this object again.", listed(s.Dropped)))
	}
	if len(s.Ignored) > 0 {
		told = append(told, fmt.Sprintf("This object sets what the manager does not know and does not do: %s; upgrade the manager, or remove it.",
			listed(s.Ignored)))
	}
	if len(s.Dropped) == 0 {
		reason = v1alpha1.ReasonCRDNewer
	}
	return yes(reason, "%s", strings.Join(told, " "))
}

// listed names the first fields and counts the rest.
func listed(fields []string) string {
	line := cut(strings.Join(fields[:min(len(fields), maxSentences)], ", "), 512)
	if rest := len(fields) - maxSentences; rest > 0 {
		line += fmt.Sprintf(" and %d more", rest)
	}
	return line
}
