package inference

import (
	"context"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// A vendor whose images can't be fetched has answered: its circuit stays closed, however often this happens.
func TestUndeliveredImagesAreNoFailureOfTheVendor(t *testing.T) {
	a := &maker{name: "a", images: provider.Images{Images: []provider.Image{{URL: "https://images.example/gone.png"}}}}
	b := chain(t, "a", [2]string{"m", "m"}, a, nil)
	b.Images = &images{}
	for range 12 {
		r := drawRequest(DeliverBase64)
		r.Route.Substitution = false
		_, err := b.MakeImages(t.Context(), r)
		refused(t, err, 502, ReasonProviderFailed, apierr.ClassServerError)
	}
	if len(a.asked) != 12 {
		t.Errorf("the vendor was asked %d times of 12", len(a.asked))
	}
	for _, s := range b.Health.Snapshot() {
		if s.Phase != health.Closed || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// panicking is a provider whose adapter panics, before an answer or in the middle of a stream. The value of the panic
// contains the key, as a dumped request would.
type panicking struct {
	*script

	after int // events of a stream before the panic
}

func (p panicking) Chat(_ context.Context, c provider.Credential, _ *provider.Chat) (*provider.Answer, error) {
	panic("request with " + c.Key.Reveal())
}

func (p panicking) StreamChat(ctx context.Context, c provider.Credential, _ *provider.Chat) (provider.Stream, error) {
	if p.after < 0 {
		panic("request with " + c.Key.Reveal())
	}
	steps := make([]step, p.after)
	for i := range steps {
		steps[i] = text("word")
	}
	return &panicStream{scriptStream{ctx: ctx, of: p.script, steps: steps}, c}, nil
}

type panicStream struct {
	scriptStream

	credential provider.Credential
}

func (s *panicStream) Next() (provider.Event, error) {
	if len(s.steps) == 0 {
		panic("stream with " + s.credential.Key.Reveal())
	}
	return s.scriptStream.Next()
}

// A panic of one adapter is a failure of that candidate: the next one serves, what arrived is billed, the permit is
// released, and the key appears in no text.
func TestPanicOfAnAdapter(t *testing.T) {
	for name, c := range map[string]struct {
		stream bool
		after  int
		served string
	}{
		"of a whole answer":         {false, 0, "b"},
		"before the stream":         {true, -1, "b"},
		"before the first content":  {true, 0, "b"},
		"in the middle of a stream": {true, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, nil, &script{name: "a"}, fine())
			fleet := *b.Fleet()
			fleet.Providers = map[string]provider.Provider{"a": panicking{b.scripts["a"], c.after}, "b": fleet.Providers["b"]}
			b.Fleet = func() *Fleet { return &fleet }
			var said string
			var err error
			if c.stream {
				var s *Stream
				if s, err = b.StreamChat(t.Context(), request()); err == nil {
					said, err = read(s)
				}
			} else {
				_, err = b.Chat(t.Context(), request())
			}
			row := b.ledger.entries[0]
			switch {
			case c.served != "" && (err != nil || row.Provider != c.served || row.Attempts != 2):
				t.Errorf("%v, row %+v, want %s after a", err, row, c.served)
			case c.served == "":
				refused(t, err, 502, ReasonStreamInterrupted, apierr.ClassServerError)
				if said != "wordword" || row.Outcome != ledger.OutcomeInterrupted || row.Usage.Output != 2 {
					t.Errorf("%q, row %+v", said, row)
				}
			}
			for _, s := range b.Health.Snapshot() {
				if s.InFlight != 0 {
					t.Errorf("%d permits are out", s.InFlight)
				}
			}
			log := b.log.String()
			if err != nil {
				log += err.Error()
			}
			if strings.Contains(log, canary) || !strings.Contains(log, "panic: ") || !strings.Contains(log, "with [redacted]") {
				t.Errorf("the log holds the key, or not the panic: %s", log)
			}
		})
	}
}
