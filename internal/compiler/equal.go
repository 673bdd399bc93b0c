package compiler

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/table"
)

// equalRoutes says whether two sorted lists of routes are the same. It is reflect.DeepEqual by hand: every publication
// compares the whole table with what is published. A test changes each field in turn, so that none is forgotten.
func equalRoutes(a, b []*table.Route) bool { return slices.EqualFunc(a, b, equalRoute) }

func equalRoute(a, b *table.Route) bool {
	return a == b || equalHead(a, b) && equalSettings(a, b) &&
		slices.EqualFunc(a.Chain, b.Chain, equalBackend) && slices.EqualFunc(a.Pins, b.Pins, equalPin)
}

func equalHead(a, b *table.Route) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name && a.Generation == b.Generation && a.UID == b.UID &&
		a.Created.Equal(b.Created) && a.Order == b.Order && a.Model == b.Model
}

func equalSettings(a, b *table.Route) bool {
	return a.Timeouts == b.Timeouts && a.Retry == b.Retry && a.Heartbeat == b.Heartbeat && a.RateLimit == b.RateLimit &&
		a.Queue == b.Queue && a.PreferHeader == b.PreferHeader && a.WhenAllOpen == b.WhenAllOpen && a.ResponseModel == b.ResponseModel
}

func equalBackend(a, b table.Backend) bool {
	return a.ID == b.ID && a.Name == b.Name && equalTarget(&a, &b) &&
		a.MaxInFlight == b.MaxInFlight && a.ContextWindow == b.ContextWindow &&
		a.Failure == b.Failure && a.Saturation == b.Saturation && a.Probe == b.Probe
}

func equalTarget(a, b *table.Backend) bool {
	return a.BaseURL == b.BaseURL && a.Query == b.Query && a.Model == b.Model && a.Regime == b.Regime && a.Group == b.Group &&
		slices.Equal(a.Headers, b.Headers) && equalPointed(a.Credential, b.Credential) && equalPointed(a.TLS, b.TLS)
}

func equalPointed[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func equalPin(a, b table.Pin) bool {
	return a.Name == b.Name && a.Backend == b.Backend && a.Mode == b.Mode && a.Reason == b.Reason &&
		a.StartsAt.Equal(b.StartsAt) && a.ExpiresAt.Equal(b.ExpiresAt)
}
