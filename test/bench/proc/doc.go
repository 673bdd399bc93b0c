// Package proc tells what processes cost: their CPU time and memory, as Linux shows them in /proc. Elsewhere it measures
// nothing and says so.
package proc
