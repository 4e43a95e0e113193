package telemetry

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/bounded"
)

// variable is one of the variables of OpenTelemetry's SDK. The SDK goes on without a value that it can't read, and
// writes it, which may be a vendor's key, to the standard logger.
type variable struct {
	name  string
	check func(value string) error
}

// Check reads the variables of OpenTelemetry's SDK as Setup does, apart from the files that they name. The error names
// all that are wrong, and repeats no value.
func Check() error {
	var errs []error
	for _, s := range []signal{traces, metrics, logs} {
		_, err := s.exported()
		errs = append(errs, err)
	}
	for _, v := range variables() {
		if value := strings.TrimSpace(os.Getenv(v.name)); value != "" {
			if err := v.check(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
			}
		}
	}
	return errors.Join(distinct(errs)...)
}

// distinct drops the errors that others repeat: a variable may be one of several signals.
func distinct(errs []error) []error {
	seen := make(map[string]bool)
	return slices.DeleteFunc(errs, func(err error) bool {
		if err == nil || seen[err.Error()] {
			return true
		}
		seen[err.Error()] = true
		return false
	})
}

// exporters returns the beginnings of the names of the exporters' variables: all signals', then each one's own.
func exporters() []string {
	const all = "OTEL_EXPORTER_OTLP_"
	return []string{all, all + string(traces) + "_", all + string(metrics) + "_", all + string(logs) + "_"}
}

func variables() []variable {
	all := []variable{
		{"OTEL_RESOURCE_ATTRIBUTES", checkAttributes},
		{"OTEL_TRACES_SAMPLER", oneOf(
			"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")},
		{"OTEL_TRACES_SAMPLER_ARG", checkRatio},
		{"OTEL_SDK_DISABLED", oneOf("true", "false")},
	}
	for _, name := range []string{
		"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT",
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
		"OTEL_BLRP_SCHEDULE_DELAY", "OTEL_BLRP_EXPORT_TIMEOUT", "OTEL_BLRP_MAX_QUEUE_SIZE", "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
	} {
		all = append(all, variable{name, checkCount})
	}
	for _, exporter := range exporters() {
		all = append(all,
			variable{exporter + "ENDPOINT", checkEndpoint},
			variable{exporter + "HEADERS", checkHeaders},
			variable{exporter + "TIMEOUT", checkCount},
			variable{exporter + "COMPRESSION", oneOf("gzip", "none")},
			variable{exporter + "INSECURE", oneOf("true", "false")},
		)
	}
	return all
}

func oneOf(values ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, strings.ToLower(value)) {
			return errors.New("want " + strings.Join(values, ", "))
		}
		return nil
	}
}

// checkEndpoint wants a URL with a host. A target of gRPC's own resolvers has the form dns:///host:port.
func checkEndpoint(value string) error {
	u, err := url.Parse(value)
	web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	resolved := err == nil && (u.Scheme == "dns" || u.Scheme == "unix") && u.Path+u.Opaque != ""
	if !web && !resolved {
		return errors.New("want a URL such as http://host:4317 or https://host:4317")
	}
	return nil
}

func checkAttributes(value string) error {
	return checkPairs(value, func(rune) bool { return false })
}

// checkHeaders wants names of headers (RFC 9110, section 5.6.2).
func checkHeaders(value string) error {
	return checkPairs(value, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) })
}

// checkPairs wants key=value,key=value, with values as in a URL and keys without some characters.
func checkPairs(value string, without func(rune) bool) error {
	for pair := range strings.SplitSeq(value, ",") {
		key, text, found := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if _, err := url.PathUnescape(text); !found || key == "" || strings.ContainsFunc(key, without) || err != nil {
			return errors.New("want key=value,key=value with percent-encoded values")
		}
	}
	return nil
}

func checkCount(value string) error {
	if n, err := strconv.Atoi(value); err != nil || n <= 0 {
		return errors.New("want a whole number above 0; times are in milliseconds")
	}
	return nil
}

func checkRatio(value string) error {
	if ratio, err := strconv.ParseFloat(value, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		return errors.New("want a number from 0 to 1")
	}
	return nil
}

// CheckFiles reads the certificates and keys that the variables of OpenTelemetry's SDK name.
func CheckFiles() error {
	var errs []error
	for _, exporter := range exporters() {
		authority, certificate, key := exporter+"CERTIFICATE", exporter+"CLIENT_CERTIFICATE", exporter+"CLIENT_KEY"
		if path := os.Getenv(authority); path != "" {
			pem, err := bounded.ReadFile(path, bounded.MaxFile)
			if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
				err = errors.New("no certificate in PEM")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", authority, err))
			}
		}
		pair, of := os.Getenv(certificate), os.Getenv(key)
		if pair == "" && of == "" {
			continue
		}
		if _, err := bounded.ReadKeyPair(pair, of); err != nil {
			errs = append(errs, fmt.Errorf("%s, %s: %w", certificate, key, err))
		}
	}
	return errors.Join(errs...)
}
