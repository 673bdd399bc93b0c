// Package alerts tests what people see: the alerts and the dashboard of the chart.
//
//	rules.test.yaml  which alert fires when, in the form of promtool
//	prometheus       a real Prometheus scrapes a real stack: every target is up, every query of the dashboard has series, every
//	                 alert can be evaluated, and the one that should be firing is
//
// `make test-alerts` builds both programs of Prometheus once and names them in PROMTOOL and PROMETHEUS. test/chart checks, without
// them, that every metric and label in the queries is one that the code declares.
package alerts
