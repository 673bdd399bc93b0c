package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clocksAgree is how far a report's renewTime may lie from its arrival while the two clocks are taken to agree. A report that was
// listed, not watched, is as old as a renewal interval of 15 s and a slow write on top.
const clocksAgree = 30 * time.Second

// ClockOffset returns what is to be added to the instants in the report to bring them to the clock of a reader to whom it came at
// seen: nothing while the two clocks agree as far as can be told, else what lies between its renewTime and seen. Only what people
// read needs it: remaining times and epochs decide, and know no wall clock. Where either instant is unknown (zero) there is none.
func (s *ProxyReportStatus) ClockOffset(seen time.Time) time.Duration {
	apart := seen.Sub(s.RenewTime.Time)
	if s.RenewTime.IsZero() || seen.IsZero() || apart.Abs() <= clocksAgree {
		return 0
	}
	return apart
}

// IsWrittenAfter says whether the proxy has written the report since the version of it with that renewTime, which it changes each
// time. What others do to a report, such as an annotation, is no sign of life. Without a renewTime any change may be the proxy's.
func (s *ProxyReportStatus) IsWrittenAfter(renewTime metav1.MicroTime) bool {
	return s.RenewTime.IsZero() || !s.RenewTime.Equal(&renewTime)
}

// lastYear is the last one that is written with four digits. The schema takes no other.
const lastYear = 9999

// SinceBy returns since on the clock of a reader, which lies offset from the writer's (see ClockOffset). It is zero where it is not
// known, and where it is so far off that the reader could not write it down: a status with it would be refused whole.
func (b *BreakerReport) SinceBy(offset time.Duration) time.Time {
	if b.Since == nil {
		return time.Time{}
	}
	if at := b.Since.Add(offset); at.Year() > 0 && at.Year() < lastYear {
		return at
	}
	return time.Time{}
}
