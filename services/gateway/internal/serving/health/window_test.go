package health

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// A window counts the calls within its span, except that a part of the oldest slot may have expired.
func TestWindow(t *testing.T) {
	const span, slots = 30 * time.Second, 10
	rapid.Check(t, func(t *rapid.T) {
		w := newWindow(span, slots)
		type made struct {
			at     time.Duration
			failed bool
		}
		var all []made
		at := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "begin"))
		for range rapid.IntRange(0, 60).Draw(t, "calls") {
			at += time.Duration(rapid.Int64Range(0, int64(8*time.Second)).Draw(t, "pause"))
			call := made{at, rapid.Bool().Draw(t, "failed")}
			w.add(call.at, call.failed)
			all = append(all, call)
		}
		at += time.Duration(rapid.Int64Range(0, int64(40*time.Second)).Draw(t, "end"))
		count := func(from time.Duration) (calls, failures int) {
			for _, call := range all {
				if call.at >= from {
					if calls++; call.failed {
						failures++
					}
				}
			}
			return calls, failures
		}
		calls, failures := w.sum(at, span)
		surely, failed := count(at - span + span/slots)
		perhaps, mayFail := count(at - span)
		if calls < surely || calls > perhaps {
			t.Fatalf("%d calls, want %d to %d", calls, surely, perhaps)
		}
		if failures < failed || failures > mayFail {
			t.Fatalf("%d failures, want %d to %d", failures, failed, mayFail)
		}
		w.clear()
		if calls, failures := w.sum(at, span); calls+failures != 0 {
			t.Fatalf("%d calls after all is cleared", calls)
		}
	})
}

// A circuit that has closed again starts to count anew: the failures that opened it no longer count.
func TestWindowBeginsWithThePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		for range 5 {
			do(t, m, call(), failure(500))
		}
		time.Sleep(7 * time.Second) // Still in the window.
		for _, e := range []*provider.Error{nil, failure(500), failure(500)} {
			if r := do(t, m, call(), e); r != nil {
				t.Fatal(r.Text())
			}
		}
		if got := phase(m); got != Closed {
			t.Errorf("%s, after a probe passed and two calls failed", got)
		}
	})
}

// A slot's number has a limited number of bits; counting continues after it wraps, years later.
func TestWindowBeyondItsNumbers(t *testing.T) {
	w := newWindow(10*time.Second, 10)
	for _, at := range []time.Duration{1<<24*time.Second - 2*time.Second, 1<<24*time.Second + time.Hour, 1<<25*time.Second + 2*time.Hour} {
		w.add(at, false)
		w.add(at, true)
		if calls, failures := w.sum(at, 10*time.Second); calls != 2 || failures != 1 {
			t.Errorf("at %v: %d calls, %d failures", at, calls, failures)
		}
	}
}
