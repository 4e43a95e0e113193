package telemetry

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A signal is one of the kinds of telemetry that can be exported over OTLP, as it is written in the names of the
// variables of OpenTelemetry's SDK, such as OTEL_METRICS_EXPORTER.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
	logs    signal = "LOGS"
)

// Values of OTEL_<signal>_EXPORTER.
const (
	exporterOTLP       = "otlp"
	exporterPrometheus = "prometheus"
	exporterNone       = "none"
)

// exported reports whether the variables of the environment ask for a signal over OTLP. Traces are exported if an
// endpoint is set, the other signals only on demand: metrics can always be scraped, and lines are always written.
func (s signal) exported() (bool, error) {
	known := []string{exporterOTLP, exporterNone}
	usual := exporterNone
	switch {
	case s == metrics:
		known = append(known, exporterPrometheus)
	case s == traces && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""):
		usual = exporterOTLP
	}
	name := "OTEL_" + string(s) + "_EXPORTER"
	value := cmp.Or(os.Getenv(name), usual)
	if !slices.Contains(known, value) {
		return false, fmt.Errorf("%s: want %s", name, strings.Join(known, ", "))
	}
	if value != exporterOTLP || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	return true, s.checkProtocol()
}

// checkProtocol refuses the protocols of OTLP that this build does not have.
func (s signal) checkProtocol() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + string(s) + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch os.Getenv(name) {
		case "":
		case "grpc":
			return nil
		default:
			return fmt.Errorf("%s: want grpc", name)
		}
	}
	return nil
}
