package notice

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
)

// hanging is a world in which one organization's servers hang for all lists except tools.
type hanging struct {
	*world

	organization string
	hung         atomic.Int32
}

func (w *hanging) Digest(ctx context.Context, a *toolcall.Asker, server string, of toolcall.Listed) (uint64, bool, error) {
	if a.Organization != w.organization || of == toolcall.ListedTools {
		return w.world.Digest(ctx, a, server, of)
	}
	w.hung.Add(1)
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	return 0, false, ctx.Err()
}

// Listeners of one organization whose servers hang don't delay another organization's streams or their notices.
func TestOrganizationHasItsShareOfComparisons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &hanging{world: &world{digests: State{1, 2, 3}}, organization: "hostile"}
		h := NewHub(w, w)
		ctx, cancel := context.WithCancel(t.Context())
		begun := 0
		all := make([]*listening, 0, 36)
		for i := range cap(all) {
			l := listenAs(ctx, h, State{}, &toolcall.Asker{Organization: "hostile", User: fmt.Sprint(i)})
			synctest.Wait()
			begun += len(l.said)
			all = append(all, l)
		}
		if begun != len(all) {
			t.Errorf("%d of %d streams have begun while their servers hang", begun, len(all))
		}
		l := listen(ctx, h, State{})
		synctest.Wait()
		if !slices.Equal(l.said, []string{"begin"}) || l.last != (State{1, 2, 3}) {
			t.Errorf("another organization's stream: said %v, knows %v", l.said, l.last)
		}
		time.Sleep(2 * restEach)
		w.set(State{1, 2, 4}, false)
		h.Changed()
		synctest.Wait()
		if !slices.Equal(l.said, []string{"begin", "prompts"}) {
			t.Errorf("another organization's stream: said %v, want a notice of prompts", l.said)
		}
		// While a comparison hangs, no other listener starts one at the same server. At most four had already started.
		before := w.hung.Load()
		time.Sleep(8 * time.Second)
		if more := w.hung.Load() - before; more > 4 {
			t.Errorf("%d more comparisons began at a server that hangs", more)
		}
		cancel()
		for _, l := range append(all, l) {
			<-l.done
		}
		if len(h.comparing) > 0 {
			t.Errorf("%d comparisons are left", len(h.comparing))
		}
	})
}

// A change between the start of a stream and its first comparison is notified.
func TestChangeDuringFirstComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{world: &world{digests: State{1, 2, 3}}}
		h := NewHub(w, w)
		ctx, cancel := context.WithCancel(t.Context())
		l := listen(ctx, h, State{0, 2, 0})
		synctest.Wait()
		h.Changed()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if !slices.Equal(l.said, []string{"begin", "tools", "prompts"}) || l.last != (State{1, 2, 3}) {
			t.Errorf("said %v, knows %v; want notices of what was unknown", l.said, l.last)
		}
		cancel()
		<-l.done
	})
}

// slow is a world in which a digest takes a second.
type slow struct{ *world }

func (w *slow) Digest(ctx context.Context, a *toolcall.Asker, server string, of toolcall.Listed) (uint64, bool, error) {
	time.Sleep(time.Second)
	return w.world.Digest(ctx, a, server, of)
}
