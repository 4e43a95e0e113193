package inference

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Every permit is released, however a request ends.
func TestPermitsComeBack(t *testing.T) {
	steps := map[string][]step{
		"served":        {text("x"), end(used)},
		"refused":       failing(apierr.ClassPolicy, 400),
		"failed":        failing(apierr.ClassServerError, 500),
		"interrupted":   {text("x"), broken},
		"empty":         {end(used)},
		"never started": nil,
	}
	for name, steps := range steps {
		for _, take := range []int{-1, 0, 1} {
			t.Run(name, func(t *testing.T) {
				b := setup(t, nil, &script{name: "a", steps: steps, answer: good})
				_, _ = b.Chat(t.Context(), request())
				if s, err := b.StreamChat(t.Context(), request()); err == nil {
					for n := 0; n != take; n++ {
						if _, err := s.Next(); err != nil {
							break
						}
					}
					s.Close()
				}
				left, cancel := context.WithCancel(t.Context())
				cancel()
				_, _ = b.Chat(left, request())
				for _, s := range b.Health.Snapshot() {
					if s.InFlight != 0 {
						t.Errorf("%d permits are still out", s.InFlight)
					}
				}
			})
		}
	}
}

// breaking is a part of the pipeline that panics.
type breaking struct{}

func (breaking) Plan(routing.Request) (routing.Plan, error) { panic("plan") }

func (breaking) Get(context.Context, cache.Scope, []byte) ([]byte, cache.Key) { panic("cache") }

func (breaking) Put(context.Context, cache.Key, []byte, time.Duration) {}

// A request that panics, wherever that is, releases its admission, its reservation and its permit.
func TestPanicsReleaseEverything(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"plan": func(b *bench) { b.Fleet().Planner = breaking{} },
		"cache": func(b *bench) {
			b.Answers, b.Fleet().CacheTTL = breaking{}, func(string) time.Duration { return time.Hour }
		},
	} {
		for way, ask := range map[string]func(*bench) error{
			"whole":  func(b *bench) error { _, err := b.Chat(t.Context(), request()); return err },
			"stream": func(b *bench) error { _, err := b.StreamChat(t.Context(), request()); return err },
		} {
			b, d := setup(t, nil, &script{name: "a", answer: good, steps: []step{text("x"), end(used)}}), &fakeAdmission{}
			b.Admission = d
			change(b)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s, %s: no panic", name, way)
					}
				}()
				_ = ask(b)
			}()
			if d.inside != 0 || len(d.ended) != 1 || d.ended[0] {
				t.Errorf("%s, %s: %d are still inside, ended with recorded %v", name, way, d.inside, d.ended)
			}
			for _, s := range b.Health.Snapshot() {
				if s.InFlight != 0 {
					t.Errorf("%s, %s: %d permits are still out", name, way, s.InFlight)
				}
			}
		}
	}
}

// A caller who closes the connection before the answer ends the call upstream, which does not count against the
// provider.
func TestLeavingEndsTheCallAtOnce(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, nil, &script{name: "a", answer: good, steps: []step{{wait: 1500 * time.Millisecond, event: provider.Event{Text: "x"}}}}, fine())
			for range 10 {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				start := time.Now()
				_, err := serveWith(ctx, b, stream)
				refused(t, err, 499, apierr.ReasonCancelled, "")
				if time.Since(start) != time.Second {
					t.Errorf("ended %v after the caller left", time.Since(start)-time.Second)
				}
			}
			if s := b.Health.Snapshot()[0]; s.Phase != health.Closed || s.InFlight != 0 {
				t.Errorf("%+v: callers who left count against the provider", s)
			}
			if calls, _ := b.scripts["b"].count(); calls != 0 {
				t.Errorf("%d calls of b", calls)
			}
		})
	}
}

func serveWith(ctx context.Context, b *bench, stream bool) (string, error) {
	if !stream {
		_, err := b.Chat(ctx, request())
		return "", err
	}
	s, err := b.StreamChat(ctx, request())
	if err != nil {
		return "", err
	}
	return read(s)
}

// A stream that exceeds the request's total clock does not count against the provider.
func TestOurClockIsNoFailureOfTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := []step{text("x")}
		for range 80 {
			endless = append(endless, step{wait: 900 * time.Millisecond, event: provider.Event{Text: "x"}})
		}
		b := setup(t, nil, &script{name: "a", steps: endless})
		var readers sync.WaitGroup
		for range 10 {
			readers.Go(func() {
				if _, err := serveWith(t.Context(), b, true); err == nil {
					t.Error("it did not end")
				}
			})
		}
		readers.Wait()
		if s := b.Health.Snapshot()[0]; s.Phase != health.Closed || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}
