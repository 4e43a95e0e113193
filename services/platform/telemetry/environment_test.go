package telemetry_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/telemetry"
)

// A malformed variable is refused by its name. Its value, which may be a vendor's key, is in no error.
func TestVariablesAreChecked(t *testing.T) {
	const secret = "s3cret"
	for _, test := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_HEADERS", "api-key: " + secret, "want key=value"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api key=" + secret, "want key=value"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "=" + secret, "want key=value"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=1," + secret, "want key=value"},
		{"OTEL_EXPORTER_OTLP_LOGS_HEADERS", "a=%zz" + secret, "want key=value"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", "want a URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4317", "want a URL"},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://", "want a URL"},
		{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "ftp://" + secret, "want a URL"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "want a whole number above 0"},
		{"OTEL_METRIC_EXPORT_INTERVAL", "0", "want a whole number above 0"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "want gzip, none"},
		{"OTEL_TRACES_SAMPLER", "sometimes", "want always_on"},
		{"OTEL_TRACES_SAMPLER_ARG", "1.5", "want a number from 0 to 1"},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", "want a number from 0 to 1"},
		{"OTEL_RESOURCE_ATTRIBUTES", secret, "want key=value"},
		{"OTEL_SDK_DISABLED", "maybe", "want true, false"},
	} {
		t.Run(test.name+" "+test.value, func(t *testing.T) {
			clearEndpoints(t)
			t.Setenv(test.name, test.value)
			_, err := telemetry.Setup(t.Context(), telemetry.Options{Service: "gateway", LogWriter: io.Discard})
			if err == nil || !strings.Contains(err.Error(), test.name+": "+test.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("error %v, want %s: %s", err, test.name, test.want)
			}
		})
	}
}

func TestGoodVariablesPass(t *testing.T) {
	clearEndpoints(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":         "authorization=Bearer%20s3cret, x-team = a=b",
		"OTEL_EXPORTER_OTLP_ENDPOINT":        "https://collector.example:4317",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "dns:///collector:4317",
		"OTEL_EXPORTER_OTLP_TIMEOUT":         "5000",
		"OTEL_TRACES_SAMPLER":                "parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG":            "0.1",
		"OTEL_RESOURCE_ATTRIBUTES":           "deployment.environment.name=production,example.com/team=a",
	} {
		t.Setenv(name, value)
	}
	if err := telemetry.Check(); err != nil {
		t.Error(err)
	}
}

// All that is wrong is in one error, each once.
func TestEveryVariableIsNamed(t *testing.T) {
	clearEndpoints(t)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
	err := telemetry.Check()
	want := "OTEL_EXPORTER_OTLP_PROTOCOL: want grpc\nOTEL_EXPORTER_OTLP_TIMEOUT: want a whole number above 0; times are in milliseconds"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestFilesOfVariablesAreChecked(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE: open missing.pem"},
		{"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", empty, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: no certificate in PEM"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", empty, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(test.name, test.value)
			if err := telemetry.CheckFiles(); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}
