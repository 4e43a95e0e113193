package notice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Lists and an Admission.
type world struct {
	mu      sync.Mutex
	digests State
	broken  bool
	refused error
	end     context.CancelCauseFunc
	asked   int
}

func (w *world) Digest(_ context.Context, _ *toolcall.Asker, _ string, of toolcall.Listed) (uint64, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.digests[of], !w.broken, nil
}

// compared returns how many digests were asked for.
func (w *world) compared() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *world) set(s State, broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.digests, w.broken = s, broken
}

type grant struct {
	admission.Grant

	ctx context.Context
}

func (g grant) Context() context.Context { return g.ctx }
func (grant) End(bool)                   {}

func (w *world) Admit(ctx context.Context, _, _ string, _ keyterm.Terms) (admission.Grant, error) {
	if w.refused != nil {
		return nil, w.refused
	}
	ctx, w.end = context.WithCancelCause(ctx)
	return grant{ctx: ctx}, nil
}

var all = []toolcall.Listed{toolcall.ListedTools, toolcall.ListedResources, toolcall.ListedPrompts}

// listening is a listener under way.
type listening struct {
	Listener
	said []string
	last State
	err  error
	done chan struct{}
}

func listen(ctx context.Context, h *Hub, known State) *listening {
	return listenAs(ctx, h, known, &toolcall.Asker{Organization: "acme", User: "ann"})
}

func listenAs(ctx context.Context, h *Hub, known State, asker *toolcall.Asker) *listening {
	l := &listening{done: make(chan struct{})}
	l.Listener = Listener{
		Asker: asker, Of: all, Known: known,
		Begin:   func() { l.said, l.last = append(l.said, "begin"), known },
		Learned: func(s State) { l.last = s },
		Changed: func(of toolcall.Listed, s State) {
			l.said, l.last = append(l.said, []string{"tools", "resources", "prompts"}[of]), s
		},
	}
	go func() {
		defer close(l.done)
		l.err = h.Listen(ctx, &l.Listener)
	}()
	return l
}

// What changes is said once, whether or not a change was announced; what can't be read is no change.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{digests: State{1, 2, 3}}
		h := NewHub(w, w)
		ctx, cancel := context.WithCancel(t.Context())
		l := listen(ctx, h, State{})
		said := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(l.said, want) {
				t.Fatalf("%s: said %v, want %v", when, l.said, want)
			}
			l.said = nil
		}
		said("at first", "begin")
		if l.last != (State{1, 2, 3}) {
			t.Errorf("knows %v", l.last)
		}
		time.Sleep(2 * restEach)
		h.Changed()
		said("a change of something else")
		w.set(State{9, 2, 3}, false)
		for range 100 {
			h.Changed()
		}
		time.Sleep(2 * restEach)
		said("many changes at once", "tools")
		w.set(State{9, 8, 7}, false)
		time.Sleep(checkEvery + checkJitter + restEach)
		said("not announced", "resources", "prompts")
		if l.last != (State{9, 8, 7}) {
			t.Errorf("knows %v", l.last)
		}
		w.set(State{1, 1, 1}, true)
		time.Sleep(2 * checkEvery)
		said("a server is away")
		w.set(State{9, 8, 7}, false)
		time.Sleep(2 * checkEvery)
		said("it is back")
		before := w.compared()
		time.Sleep(10 * time.Minute)
		if times := w.compared() - before; times > 3*14 {
			t.Errorf("compared %d times in 10 minutes", times)
		}
		cancel()
		<-l.done
		if l.err != nil || len(h.counts) > 0 || h.streams != 0 {
			t.Errorf("%v, left %v", l.err, h.counts)
		}
	})
}

// A stream goes on on any replica where another one has ended.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{digests: State{1, 5, 3}}
		ctx, cancel := context.WithCancel(t.Context())
		l := listen(ctx, NewHub(w, w), ParseID(State{1, 2, 0}.ID()))
		synctest.Wait()
		if !slices.Equal(l.said, []string{"begin", "resources"}) || l.last != (State{1, 5, 3}) {
			t.Errorf("said %v, knows %v", l.said, l.last)
		}
		cancel()
		<-l.done
	})
}

func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(h *Hub, w *world)
		reason apierr.Reason
	}{
		"drain":      {func(h *Hub, _ *world) { _ = h.Drain(context.Background()); _ = h.Drain(context.Background()) }, ""},
		"age":        {func(*Hub, *world) { time.Sleep(life) }, ""},
		"suspension": {func(_ *Hub, w *world) { w.end(organization.ErrSuspended) }, organization.ErrSuspended.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{digests: State{1, 2, 3}}
				h := NewHub(w, w)
				l := listen(t.Context(), h, State{})
				synctest.Wait()
				c.end(h, w)
				<-l.done
				var reason apierr.Reason
				if e, ok := errors.AsType[*apierr.Error](l.err); ok {
					reason = e.Reason
				}
				if reason != c.reason || (l.err != nil) != (c.reason != "") {
					t.Errorf("%v", l.err)
				}
				if name == "drain" {
					if err := h.Listen(t.Context(), &l.Listener); err == nil {
						t.Error("begins while the replica stops")
					}
				}
			})
		})
	}
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		h := NewHub(w, w)
		enter := func(of, user string) error {
			return h.enter(&Listener{Asker: &toolcall.Asker{Organization: of, User: user}})
		}
		for i := range maxOrganization {
			if err := enter("acme", fmt.Sprint(i/maxPrincipal)); err != nil {
				t.Fatal(err)
			}
		}
		if err := enter("acme", "more"); !errors.Is(err, ErrTooMany) {
			t.Errorf("of an organization: %v", err)
		}
		for range maxPrincipal {
			if err := enter("other", "ann"); err != nil {
				t.Fatal(err)
			}
		}
		if err := enter("other", "ann"); !errors.Is(err, ErrTooMany) {
			t.Errorf("of a principal: %v", err)
		}
		for i := 0; h.streams < maxStreams; i++ {
			if err := enter(fmt.Sprint("org", i), ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := enter("one more", ""); !errors.Is(err, ErrTooMany) {
			t.Errorf("of all: %v", err)
		}
		w.refused = organization.ErrSuspended
		h.leave(&Listener{Asker: &toolcall.Asker{Organization: "other", User: "ann"}})
		if err := h.Listen(t.Context(), &Listener{Asker: &toolcall.Asker{Organization: "other", User: "ann"}}); !errors.Is(err, organization.ErrSuspended) {
			t.Errorf("while suspended: %v", err)
		}
		if h.counts["other"] != maxPrincipal-1 {
			t.Errorf("counts %d", h.counts["other"])
		}
	})
}

func TestParseGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { ParseID(text) })...)
}

// FuzzParse checks that a state survives its id, and that any text is a state.
func FuzzParse(f *testing.F) {
	f.Add("", uint64(1), uint64(2))
	f.Add(State{1, 2, 3}.ID(), uint64(1<<63), uint64(0))
	f.Fuzz(func(t *testing.T, text string, a, b uint64) {
		if s := ParseID(text); s != (State{}) && s.ID() != text {
			t.Fatalf("%q is %v", text, s)
		}
		if s := (State{a, b, 1}); ParseID(s.ID()) != s {
			t.Fatalf("%v became %v", s, ParseID(s.ID()))
		}
	})
}
