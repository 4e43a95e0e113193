package inference

import (
	"context"
	"testing"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/platform/apierr"
)

// witness keeps what it is told.
type witness struct{ saw []*Account }

func (*witness) Watch(*Request) (int, bool)          { return 0, true }
func (w *witness) Saw(_ context.Context, a *Account) { w.saw = append(w.saw, a) }

// Who watches is told behind the answer, once, how it ended; the ledger isn't
// waited for so long.
func TestToldBehindTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		script *script
		want   Status
		billed int
	}{
		"served": {&script{name: "a", answer: good, steps: []step{{event: provider.Event{Text: "hi", FinishReason: provider.FinishStop}}}}, StatusOK, 1},
		"failed": {&script{name: "a", steps: refusedBy(401, apierr.ClassAuth, 0), openBy: refusedBy(401, apierr.ClassAuth, 0)[0].err}, StatusFailed, 0},
	} {
		for _, stream := range []bool{false, true} {
			b, w := setup(t, nil, c.script), &witness{}
			var later []func()
			b.Witness, b.After = w, func(_ context.Context, f func()) { later = append(later, f) }
			_, err := serve(t, b, request(), stream)
			if (err == nil) != (c.want == StatusOK) || len(b.ledger.entries) != c.billed || len(w.saw) != 0 || len(later) != 1 {
				t.Fatalf("%s, stream %t: %v, %d rows, told %d times, %d put off", name, stream, err, len(b.ledger.entries), len(w.saw), len(later))
			}
			later[0]()
			if len(w.saw) != 1 || w.saw[0].Status != c.want || (w.saw[0].Report != nil) != (c.billed == 1) || w.saw[0].Ended.IsZero() {
				t.Errorf("%s, stream %t: told %+v", name, stream, w.saw)
			}
		}
	}
}
