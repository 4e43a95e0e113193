package inference

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// pile returns a stream whose events are held or kept: n steps of 64 KiB each, then half a second without any.
func pile(n int, event func(text string) provider.Event) []step {
	text := strings.Repeat("0123456789abcdef", 4<<10)
	steps := []step{{event: provider.Event{Text: "well"}}}
	for range n {
		steps = append(steps, step{event: event(text)})
	}
	return append(steps, step{wait: time.Second / 2, event: provider.Event{FinishReason: provider.FinishStop}})
}

// What many streams hold together is within the memory for answers, and released whatever ends them.
func TestWhatStreamsHoldIsCharged(t *testing.T) {
	const streams, limit = 24, 32 << 20
	for name, c := range map[string]struct {
		steps   []step
		checked bool
		traced  bool
		leaves  bool // the callers close their connections
		spared  bool // what is kept is given up before the stream
		keeps   bool // the face keeps the answer
	}{
		"calls that wait for a name":       {steps: pile(28, func(s string) provider.Event { return toolEvent("", s) }), checked: true},
		"their callers leave":              {steps: pile(28, func(s string) provider.Event { return toolEvent("", s) }), checked: true, leaves: true},
		"frames behind them":               {steps: append([]step{{event: toolEvent("", "{")}}, pile(28, func(s string) provider.Event { return provider.Event{Text: "x", Native: []byte(s)} })...), checked: true},
		"calls that a face puts in order":  {steps: pile(50, func(s string) provider.Event { return toolEvent("look", s) })},
		"text that a face puts in order":   {steps: append([]step{{event: toolEvent("look", "{}")}}, pile(50, func(s string) provider.Event { return provider.Event{Text: s} })...)},
		"answers that a face repeats":      {steps: pile(50, func(s string) provider.Event { return provider.Event{Text: s} }), keeps: true},
		"thinking that a face repeats":     {steps: pile(50, func(s string) provider.Event { return provider.Event{Reasoning: s} }), keeps: true},
		"images":                           {steps: pile(50, func(s string) provider.Event { return provider.Event{Images: []string{s}} })},
		"sources that a face repeats":      {steps: pile(50, func(s string) provider.Event { return provider.Event{Citations: []provider.Citation{{Quote: s}}} })},
		"answers that are kept for traces": {steps: pile(50, func(s string) provider.Event { return provider.Event{Text: s} }), traced: true, spared: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := guarded(t, &script{name: "a", steps: c.steps})
				b.log = nil
				if !c.checked {
					b.Fleet().NeedsApproval = nil
				}
				recorder := &contentRecorder{}
				if c.traced {
					b.Recorder = recorder
				}
				b.Ledger = &forgetful{}
				b.Memory = memory.New(limit, 100)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var served, full atomic.Int32
				var all sync.WaitGroup
				for i := range streams {
					all.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond) // One after the other: at once, each may be the one too many.
						r := asking("approved")
						r.Organization, r.Chat.MaxTokens = "acme", 1<<20
						r.ShowsReasoning, r.KeepsAnswer, r.ShowsImages = c.keeps, c.keeps, true
						r.ID = fmt.Sprint("req_", i)
						_, err := serveRequest(ctx, b, r, true)
						switch e := apierr.From(err); {
						case err == nil:
							served.Add(1)
						case e.Reason == ReasonMemoryFull || strings.Contains(e.Text, memory.ErrFull.Error()):
							full.Add(1)
						case !c.leaves:
							t.Errorf("ended with %v", err)
						}
					})
				}
				time.Sleep(100 * time.Millisecond)
				held := b.Memory.Held()
				if held > limit || held == 0 {
					t.Errorf("%d of %d bytes are held at once", held, limit)
				}
				if c.leaves {
					cancel()
				}
				all.Wait()
				synctest.Wait()
				if !c.leaves && !c.spared {
					if served.Load() == 0 || full.Load() == 0 {
						t.Errorf("%d streams were served and %d given up, want some of each", served.Load(), full.Load())
					}
					if ended := served.Load() + full.Load(); ended != streams {
						t.Errorf("%d streams were served or given up, want %d", ended, streams)
					}
				}
				if c.spared && (served.Load() != streams || recorder.cut.Load() == 0) {
					t.Errorf("%d streams were served, %d are cut in their trace", served.Load(), recorder.cut.Load())
				}
				if held := b.Memory.Held(); held != 0 {
					t.Errorf("%d bytes are still charged", held)
				}
			})
		})
	}
}

func toolEvent(name, arguments string) provider.Event {
	return provider.Event{ToolCalls: []provider.ToolCall{{Name: name, Arguments: arguments}}}
}

// contentRecorder keeps the answers of all requests.
type contentRecorder struct{ cut atomic.Int32 }

func (*contentRecorder) Observe(string) (int, bool) { return 4 << 20, true }

func (r *contentRecorder) Record(_ context.Context, a *trace.Observation) {
	if a.Answer.Cut {
		r.cut.Add(1)
	}
}

// An ordinary stream whose calls wait for their approval succeeds where all memory is taken.
func TestOrdinaryStreamSucceedsWithoutMemory(t *testing.T) {
	arguments := strings.Repeat("x", 100)
	steps := []step{text("well")}
	for range 20 {
		steps = append(steps, step{event: toolEvent("", arguments)})
	}
	b := guarded(t, &script{name: "a", steps: append(steps, step{event: toolEvent("deploy", "")}, end(used))})
	b.Memory = memory.New(128<<20, 100)
	hog := b.Memory.Open("hog", 0)
	for hog.Charge(1<<20) == nil {
	}
	defer hog.Close()
	if _, err := serveRequest(t.Context(), b, asking("approved"), true); err != nil {
		t.Error(err)
	}
}

// The charge for withheld events is released once they are passed on, before the stream's end.
func TestHeldEventsAreGivenBack(t *testing.T) {
	b := guarded(t, &script{name: "a", steps: append(pile(10, func(s string) provider.Event { return toolEvent("", s) })[:11],
		step{event: toolEvent("look", "")}, text("and on"), end(used))})
	b.Memory = memory.New(64<<20, 100)
	s, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	most := int64(0)
	for {
		event, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, b.Memory.Held())
		if event.Text == "and on" {
			break
		}
	}
	s.approvals.settle(len(s.passed))
	// A face may still hold the calls, so that their text stays charged.
	if held := b.Memory.Held(); held > most/2 {
		t.Errorf("%d of %d bytes are charged after they went out", held, most)
	}
}
