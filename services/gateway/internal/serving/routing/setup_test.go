package routing

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// now is the present time of these tests.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const widePrices = `
providers:
  - provider: one
    models:
      - {model: big, effective_from: 2026-01-01, input_per_mtok_usd: "2", output_per_mtok_usd: "8"}
      - {model: small, effective_from: 2026-01-01, input_per_mtok_usd: "1", output_per_mtok_usd: "20"}
      - {model: small, effective_from: 2027-01-01, input_per_mtok_usd: "0.1", output_per_mtok_usd: "0.1"}
      - {model: shared, effective_from: 2026-01-01, input_per_mtok_usd: "3", output_per_mtok_usd: "3"}
  - provider: two
    models:
      - {model: wise, effective_from: 2026-01-01, input_per_mtok_usd: "5", output_per_mtok_usd: "5"}
      - {model: shared, effective_from: 2026-01-01, input_per_mtok_usd: "2", output_per_mtok_usd: "2"}
`

func prices(tb testing.TB) *price.Table {
	tb.Helper()
	return pricetest.Table(tb, widePrices)
}

// seen is what the calls of a test show of the targets.
type seen struct {
	latency map[provider.Target]time.Duration
	down    map[provider.Target]bool
}

func (s seen) Latency(t provider.Target) (time.Duration, bool) {
	d, ok := s.latency[t]
	return d, ok
}

func (s seen) Available(t provider.Target, _ string) bool { return !s.down[t] }

// names formats the candidates of a plan; a substitute has a tilde.
func names(plan Plan) string {
	var all []string
	for _, c := range plan.Candidates {
		text := c.String()
		if c.Substitute {
			text = "~" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func left(plan Plan) string {
	var all []string
	for _, e := range plan.Excluded {
		all = append(all, e.String())
	}
	return strings.Join(all, " ")
}

// refusal is what a caller's program reads of an error.
type refusal struct {
	Kind   apierr.Kind
	Reason apierr.Reason
	Class  apierr.Class
}

// checkRefusal checks what programs read of the error, and that its text holds the text.
func checkRefusal(t *testing.T, err error, want refusal, text string) {
	t.Helper()
	e := apierr.From(err)
	if e == nil {
		t.Fatalf("no error, want %+v", want)
	}
	if diff := cmp.Diff(want, refusal{e.Kind, e.Reason, e.ErrorClass()}); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if !strings.Contains(e.Text, text) {
		t.Errorf("text %q, want %q in it", e.Text, text)
	}
}
