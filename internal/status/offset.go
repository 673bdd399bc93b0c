package status

import "time"

// agreement is how far a report's renewTime may lie from its arrival while the two clocks are taken to agree. A report that was
// listed, not watched, is as old as a renewal interval of 15 s and a slow write on top.
const agreement = 30 * time.Second

// Offset returns what is to be added to the instants in a report to bring them to the reader's clock: nothing while the two clocks
// agree as far as can be told, else what lies between the report's renewTime and its arrival (seen, by the reader's clock). Only
// what people read needs it: remaining times and epochs decide, and know no wall clock. Where either instant is unknown (zero)
// there is none.
func Offset(renewed, seen time.Time) time.Duration {
	apart := seen.Sub(renewed)
	if renewed.IsZero() || seen.IsZero() || apart.Abs() <= agreement {
		return 0
	}
	return apart
}
