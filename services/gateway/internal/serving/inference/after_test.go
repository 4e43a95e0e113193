package inference

import (
	"context"
	"testing"

	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// records keeps all records.
type records struct{ all []*trace.Observation }

func (*records) Observe(string) (int, bool)                         { return 0, true }
func (r *records) Record(_ context.Context, one *trace.Observation) { r.all = append(r.all, one) }

// Who watches is told behind the answer, once, how it ended; the ledger isn't
// waited for so long.
func TestToldBehindTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		script *script
		want   trace.Status
		billed int
	}{
		"served": {&script{name: "a", answer: good, steps: []step{{event: provider.Event{Text: "hi", FinishReason: provider.FinishStop}}}}, trace.StatusOK, 1},
		"failed": {&script{name: "a", steps: refusedBy(401, apierr.ClassAuth, 0), openBy: refusedBy(401, apierr.ClassAuth, 0)[0].err}, trace.StatusFailed, 0},
	} {
		for _, stream := range []bool{false, true} {
			b, w := setup(t, nil, c.script), &records{}
			var later []func()
			b.Recorder, b.After = w, func(_ context.Context, f func()) { later = append(later, f) }
			_, err := serve(t, b, request(), stream)
			if (err == nil) != (c.want == trace.StatusOK) {
				t.Fatalf("%s, stream %t: %v, want status %s", name, stream, err, c.want)
			}
			if n := len(b.ledger.entries); n != c.billed {
				t.Fatalf("%s, stream %t: %d rows, want %d", name, stream, n, c.billed)
			}
			if len(w.all) != 0 || len(later) != 1 {
				t.Fatalf("%s, stream %t: recorded %d times, %d put off; want 0 and 1", name, stream, len(w.all), len(later))
			}
			later[0]()
			if len(w.all) != 1 {
				t.Fatalf("%s, stream %t: recorded %d times, want once", name, stream, len(w.all))
			}
			recorded := w.all[0]
			if recorded.Status != c.want || recorded.Ended.IsZero() {
				t.Errorf("%s, stream %t: status %s, ended %v; want %s and a time", name, stream, recorded.Status, recorded.Ended, c.want)
			}
			if (recorded.Report != nil) != (c.billed == 1) {
				t.Errorf("%s, stream %t: report %+v of %d rows", name, stream, recorded.Report, c.billed)
			}
		}
	}
}
