package v1alpha1

// Default fills in the constant defaults, the same ones that the API server applies from the CRD. It is for objects
// that no API server has seen: the manifests of a standalone proxy. Defaults that are derived (the names of models,
// slowAfter, nonStreamingSlowAfter) are the compiler's.
func (r *LLMRoute) Default() {
	s := &r.Spec
	for i := range s.Chain {
		s.Chain[i].setDefaults()
	}
	setDefault(&s.Failure.Threshold, 5)
	setDefault(&s.Failure.Cooldown, "30s")
	setDefault(&s.Saturation.Threshold, 2)
	setDefault(&s.Saturation.Cooldown, "15m")
	setDefault(&s.Saturation.SlowAfterPerKilotoken, "0s")
	setDefault(&s.Saturation.ColdStartGrace, "2m")
	setDefault(&s.Recovery.Probe, ProbeSynthetic)
	setDefault(&s.Timeouts.Request, "0s")
	setDefault(&s.Timeouts.Connect, "5s")
	setDefault(&s.Timeouts.Idle, "2m")
	setDefault(&s.Retry.Backoff, "250ms")
	setDefault(&s.Heartbeat.Interval, "10s")
	setDefault(&s.Heartbeat.CommitAfter, "1s")
	setDefault(&s.Heartbeat.Form, HeartbeatLine)
	setDefaultPointer(&s.RateLimit.Requests, 1)
	setDefault(&s.RateLimit.Per, "1s")
	setDefault(&s.RateLimit.Burst, 1)
	setDefaultPointer(&s.Queue.Length, 32)
	setDefault(&s.Queue.MaxWait, "30s")
	setDefault(&s.PreferHeader, PreferHonor)
	setDefault(&s.WhenAllOpen, AllOpenTry)
	setDefault(&s.ResponseModel, ResponseModelLogical)
}

func (b *Backend) setDefaults() {
	setDefault(&b.Regime, RegimeUnknown)
	if b.Service != nil {
		setDefault(&b.Service.Scheme, ServiceSchemeHTTP)
		setDefault(&b.Service.Path, "/v1")
	}
	if b.Auth != nil {
		setDefault(&b.Auth.Scheme, AuthSchemeBearer)
	}
	if b.TLS != nil {
		setDefault(&b.TLS.Verify, TLSVerifyFull)
		if b.TLS.CARef != nil {
			setDefault(&b.TLS.CARef.Kind, CARefConfigMap)
			setDefault(&b.TLS.CARef.Key, "ca.crt")
		}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setDefaultPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
