package telemetry

// Labels that several metrics share.
const (
	labelModel     = "logical_model"
	labelBackend   = "backend"
	labelNamespace = "namespace"
	labelState     = "state"
)

var (
	// Answers take from milliseconds (an embedding) to minutes (a long generation).
	secondsOfAnswer = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}
	// The proxy's own share of a request is far below a millisecond when all is well.
	secondsOfOverhead = []float64{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1}
	// Waiting in a queue ends with maxWait, 30 s unless somebody asked for more.
	secondsOfQueue = []float64{0.001, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120}
	// Watching the table is a matter of milliseconds where all is well; compiling 10,000 routes takes up to 100 ms.
	secondsOfControl = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}
)

// What requests leave behind in a proxy: see Proxy.
var (
	requestsTotal = Metric{Name: "llm_requests_total", Type: Counter, Program: InProxy, Unit: "requests", Labels: []string{labelModel, "endpoint", "code"},
		Help: "Requests answered, by logical model (empty where the request named none that exists), endpoint and HTTP status."}
	requestDuration = Metric{Name: "llm_request_duration_seconds", Type: Histogram, Program: InProxy, Unit: "seconds", Labels: []string{labelModel, labelBackend},
		Help: "Time from the end of the request's headers to the last byte of the answer, by the backend that answered.", buckets: secondsOfAnswer}
	timeToFirstToken = Metric{Name: "llm_time_to_first_token_seconds", Type: Histogram, Program: InProxy, Unit: "seconds", Labels: []string{labelModel, labelBackend},
		Help: "Time from the request to the first token (for a non-streaming request: the whole answer), by the backend that answered.", buckets: secondsOfAnswer}
	attemptsTotal = Metric{Name: "llm_attempts_total", Type: Counter, Program: InProxy, Unit: "attempts", Labels: []string{labelModel, labelBackend, "outcome"},
		Help: "Attempts at a backend, by how they ended."}
	saturatedTotal = Metric{Name: "llm_backend_saturated_total", Type: Counter, Program: InProxy, Unit: "attempts", Labels: []string{labelModel, labelBackend},
		Help: "Attempts given up because the backend showed no first token in time, or said that it is full."}
	transitionsTotal = Metric{Name: "llm_breaker_transitions_total", Type: Counter, Program: InProxy, Unit: "transitions", Labels: []string{labelNamespace, labelBackend, "to", "reason"},
		Help: "Changes of a breaker's state seen by this proxy, its own and adopted ones."}
	heartbeatsTotal = Metric{Name: "llm_stream_heartbeats_total", Type: Counter, Program: InProxy, Unit: "comments", Labels: []string{labelModel, labelState},
		Help: "Comments written to streaming callers, by state."}
	rateLimitedTotal = Metric{Name: "llm_rate_limited_total", Type: Counter, Program: InProxy, Unit: "requests", Labels: []string{labelModel},
		Help: "Requests refused by the route's rate limit."}
	queueDepth = Metric{Name: "llm_queue_depth", Type: Gauge, Program: InProxy, Unit: "requests", Labels: []string{labelModel, labelBackend},
		Help: "Callers that wait for a slot of a backend with maxInFlight."}
	tokensTotal = Metric{Name: "llm_tokens_total", Type: Counter, Program: InProxy, Unit: "tokens", Labels: []string{labelModel, labelBackend, "kind"},
		Help: "Tokens as the backends report them in usage, by kind: prompt or completion."}
	queueRejectedTotal = Metric{Name: "llm_queue_rejected_total", Type: Counter, Program: InProxy, Unit: "requests",
		Help: "Requests refused because every queue was full."}
	queueWait = Metric{Name: "llm_queue_wait_seconds", Type: Histogram, Program: InProxy, Unit: "seconds",
		Help: "Time spent waiting for a backend's slot, for those that had to wait.", buckets: secondsOfQueue}
	inFlight = Metric{Name: "llm_in_flight_requests", Type: Gauge, Program: InProxy, Unit: "requests",
		Help: "Requests being served now."}
	overhead = Metric{Name: "llm_proxy_overhead_seconds", Type: Histogram, Program: InProxy, Unit: "seconds",
		Help: "Part of a request's duration that was neither a backend's, the queue's nor the caller's.", buckets: secondsOfOverhead}

	proxyMetrics = [...]*Metric{&requestsTotal, &requestDuration, &timeToFirstToken, &attemptsTotal, &saturatedTotal, &transitionsTotal,
		&heartbeatsTotal, &rateLimitedTotal, &queueDepth, &tokensTotal, &queueRejectedTotal, &queueWait, &inFlight, &overhead}
)

// How tables and reports come into a proxy: see Table.
var (
	tableRevision = Metric{Name: "spillway_table_revision_info", Type: Gauge, Program: InProxy, Unit: "always 1", Labels: []string{"shard", "revision"},
		Help: "1 for the revision of each shard of the routing table that is being served."}
	tableReloads = Metric{Name: "spillway_table_reload_total", Type: Counter, Program: InProxy, Unit: "readings", Labels: []string{"result"},
		Help: "Times that a part of the routing table was read, by result: applied, unchanged or refused."}
	tableApply = Metric{Name: "spillway_table_apply_seconds", Type: Histogram, Program: InProxy, Unit: "seconds",
		Help: "Time from the event that announced a changed table to its being served.", buckets: secondsOfControl}
	reportAdoption = Metric{Name: "spillway_report_adoption_seconds", Type: Histogram, Program: InProxy, Unit: "seconds",
		Help: "Time from the event that brought another proxy's report to its evidence being in force here.", buckets: secondsOfControl}

	tableMetrics = [...]*Metric{&tableRevision, &tableReloads, &tableApply, &reportAdoption}
)

// What is true at the moment of a scrape: see StateCollector.
var (
	breakerStates = Metric{Name: "llm_breaker_state", Type: Gauge, Program: InProxy, Unit: "0 or 1", Labels: []string{labelNamespace, labelBackend, labelState},
		Help: "1 for the state that the backend's breaker is in, 0 for the others; where several backends of a namespace share a name, the worst."}
	pinsActive = Metric{Name: "spillway_pin_active", Type: Gauge, Program: InProxy, Unit: "always 1", Labels: []string{labelNamespace, "pin", "route"},
		Help: "1 while a pin is in force on a route."}

	pinsEnd = Metric{Name: "spillway_pin_end_timestamp_seconds", Type: Gauge, Program: InProxy, Unit: "seconds since 1970", Labels: []string{labelNamespace, "pin", "route"},
		Help: "When a pin that is in force on a route ends."}

	backendInfo = Metric{Name: "llm_backend_info", Type: Gauge, Program: InProxy, Unit: "always 1", Labels: []string{labelModel, labelBackend, "regime"},
		Help: "1 for each backend of a chain, with its regime, to join with what is counted by backend."}

	stateMetrics = [...]*Metric{&breakerStates, &pinsActive, &pinsEnd, &backendInfo}
)

// What the manager says of itself: see Manager.
var (
	compileDuration = Metric{Name: "spillway_compile_duration_seconds", Type: Histogram, Program: InManager, Unit: "seconds",
		Help: "Time that one compilation of all objects took.", buckets: secondsOfControl}
	compileObjects = Metric{Name: "spillway_compile_objects", Type: Gauge, Program: InManager, Unit: "objects", Labels: []string{"kind"},
		Help: "Objects that went into the last compilation, by kind."}
	publishFailures = Metric{Name: "spillway_table_publish_failures_total", Type: Counter, Program: InManager, Unit: "tries",
		Help: "Tries to publish the routing table that did not succeed; each is repeated soon."}
	crdMissing = Metric{Name: "spillway_crd_missing_fields", Type: Gauge, Program: InManager, Unit: "fields", Labels: []string{"crd"},
		Help: "Fields of this release that the served CustomResourceDefinition lacks, so that the API server drops them; compared every 30 s."}
	crdUnknown = Metric{Name: "spillway_crd_unknown_fields", Type: Gauge, Program: InManager, Unit: "fields", Labels: []string{"crd"},
		Help: "Fields of the served CustomResourceDefinition that this release does not know, so that what is set there does nothing; compared every 30 s."}

	managerMetrics = [...]*Metric{&compileDuration, &compileObjects, &publishFailures, &crdMissing, &crdUnknown}
)
