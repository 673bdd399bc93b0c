package otlp

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Names of the environment variables that are read here; the SDK and the exporters read the rest (headers, certificates,
// timeouts, queue sizes).
const (
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envDisabled       = "OTEL_SDK_DISABLED"
	envSampler        = "OTEL_TRACES_SAMPLER"
	envSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

// Values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	protocolHTTP = "http/protobuf" // the default
	protocolGRPC = "grpc"
)

var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}

// settings are what the environment says, checked: the SDK would ignore what it cannot read, and tracing would be
// something else than what was asked for, without a word.
type settings struct {
	on       bool
	protocol string
}

// read returns what the environment says. Errors name the variable and never quote an endpoint, which may hold a password.
func read(getenv func(string) string) (settings, error) {
	env := environment(getenv)
	endpointName, endpoint := env.first(envTracesEndpoint, envEndpoint)
	_, disabled := env.first(envDisabled)
	exporterName, exporter := env.first(envExporter)
	if endpoint == "" || strings.EqualFold(disabled, "true") || exporter == "none" {
		return settings{}, nil
	}
	if exporter != "" && exporter != "otlp" {
		return settings{}, fmt.Errorf("%s: want otlp or none", exporterName)
	}
	if !isURL(endpoint) {
		return settings{}, fmt.Errorf("%s: want a URL such as http://collector:4318", endpointName)
	}
	protocolName, protocol := env.first(envTracesProtocol, envProtocol)
	protocol = cmp.Or(protocol, protocolHTTP)
	if protocol != protocolHTTP && protocol != protocolGRPC {
		return settings{}, fmt.Errorf("%s: want %s or %s", protocolName, protocolHTTP, protocolGRPC)
	}
	_, sampler := env.first(envSampler)
	_, ratio := env.first(envSamplerArg)
	return settings{on: true, protocol: protocol}, checkSampler(sampler, ratio)
}

// environment looks a variable up.
type environment func(string) string

// first returns the first of the variables that is set, else the last one's name.
func (e environment) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(e(name)); value != "" {
			return name, value
		}
	}
	return names[len(names)-1], ""
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func checkSampler(sampler, ratio string) error {
	if sampler != "" && !slices.Contains(samplers, sampler) {
		return fmt.Errorf("%s: want one of %s", envSampler, strings.Join(samplers, ", "))
	}
	if ratio == "" || !strings.HasSuffix(sampler, "traceidratio") {
		return nil
	}
	if share, err := strconv.ParseFloat(ratio, 64); err != nil || !(share >= 0 && share <= 1) {
		return fmt.Errorf("%s: want a number from 0 to 1", envSamplerArg)
	}
	return nil
}
