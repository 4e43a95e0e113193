package breaker_test

import (
	"container/heap"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
)

// waiting is a waiting delivery of a flow.
type waiting struct {
	flow     int64
	due      time.Time
	accepted time.Time
	attempts int
}

type queue []waiting

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(waiting)) }
func (q *queue) Pop() (x any) {
	x = (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

// host is a host that answers or fails for each flow as fails says.
type host struct {
	breaker *breaker.Breaker
	// fails reports whether an attempt of a flow fails, whether it fails without an answer, and how long it takes.
	fails func(flow int64) (failed, unreached bool, takes time.Duration)
	// arrived holds how long each delivery of a flow took, from its acceptance.
	arrived  map[int64][]time.Duration
	attempts map[int64]int
}

// result reports an attempt to the circuits as the dispatcher does.
func (h *host) result(flow int64, began time.Time, own, byHost, failed, unreached bool) {
	target := breaker.Target{Organization: "acme", Host: "r.example", Port: 443, Flow: flow}
	report := func(target breaker.Target, r breaker.Report) breaker.Move {
		o := breaker.Observation{Target: target, Report: r}
		if !h.breaker.Note(o) {
			return breaker.Move{}
		}
		return h.breaker.Observe(context.Background(), []breaker.Observation{o})[0]
	}
	event := map[bool]breaker.Event{true: breaker.Failed, false: breaker.Passed}
	move := report(target.OfHost(), breaker.Report{Event: event[unreached], Began: began, Admitted: byHost, Flow: uint64(flow)})
	toFlow := breaker.Report{Event: event[failed], Began: began, Admitted: own}
	if unreached && move.State.Phase != breaker.Closed {
		toFlow.Event = breaker.Void
	}
	report(target, toFlow)
}

// run delivers what arrives for each flow at the given times, retries by the schedule, and stops at end.
func (h *host) run(arrivals map[int64][]time.Duration, schedule []time.Duration, end time.Duration) {
	began := time.Now()
	var q queue
	for flow, times := range arrivals {
		for _, at := range times {
			heap.Push(&q, waiting{flow: flow, due: began.Add(at), accepted: began.Add(at)})
		}
	}
	results := make(chan waiting)
	inFlight := 0
	for {
		timer := time.NewTimer(time.Until(began.Add(end)))
		if len(q) > 0 {
			timer.Reset(min(time.Until(q[0].due), time.Until(began.Add(end))))
		}
		select {
		case d := <-results:
			inFlight--
			if d.attempts > 0 {
				heap.Push(&q, d)
			}
			continue
		case <-timer.C:
		}
		if time.Since(began) >= end {
			break
		}
		d := heap.Pop(&q).(waiting)
		own, byHost, wait := h.admit(d.flow)
		if wait > 0 {
			d.due = time.Now().Add(wait)
			heap.Push(&q, d)
			continue
		}
		inFlight++
		go func() {
			began := time.Now()
			failed, unreached, takes := h.fails(d.flow)
			time.Sleep(takes)
			h.result(d.flow, began, own, byHost, failed, unreached)
			if failed {
				d.attempts++
				d.due = time.Now().Add(schedule[min(d.attempts, len(schedule))-1])
			} else {
				d.attempts = -1
			}
			results <- d
		}()
		h.attempts[d.flow]++
		if failed, _, _ := h.fails(d.flow); !failed {
			h.arrived[d.flow] = append(h.arrived[d.flow], time.Since(d.accepted))
		}
	}
	for range inFlight {
		<-results
	}
}

// admit asks both circuits for one delivery.
func (h *host) admit(flow int64) (own, byHost bool, wait time.Duration) {
	target := breaker.Target{Organization: "acme", Host: "r.example", Port: 443, Flow: flow}
	stored := breaker.State{Phase: breaker.Open} // As for a waiting flow, so that Admit reads the state.
	one := func(target breaker.Target) breaker.Permit {
		if state := h.breaker.States(context.Background(), []breaker.Target{target})[0]; state.Phase == breaker.Closed {
			stored = breaker.State{}
		}
		return h.breaker.Admit(context.Background(), []breaker.Ask{{Target: target, Want: 1, Stored: stored}}, 20*time.Second)[0]
	}
	p := one(target)
	if p.Allowed == 0 {
		return false, false, max(p.Wait, time.Millisecond)
	}
	q := one(target.OfHost())
	if q.Allowed == 0 && p.Counted {
		h.breaker.Observe(context.Background(), []breaker.Observation{{Target: target, Report: breaker.Report{Event: breaker.Void, Admitted: true}}})
	}
	if q.Allowed == 0 {
		return false, false, max(q.Wait, time.Millisecond)
	}
	return p.Counted, q.Counted, 0
}

func every(pause time.Duration, times int, from time.Duration) (all []time.Duration) {
	for i := range times {
		all = append(all, from+time.Duration(i)*pause)
	}
	return all
}

// retries are the delays of the service's default schedule.
var retries = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}

func newHost(t *testing.T, fails func(flow int64) (failed, unreached bool, takes time.Duration)) *host {
	t.Helper()
	return &host{
		breaker: breaker.New(breaker.Options{
			Policy: breaker.DefaultPolicy(), Log: testkit.Logger(t), Now: time.Now, Random: func() float64 { return 0.5 },
		}),
		fails: fails, arrived: make(map[int64][]time.Duration), attempts: make(map[int64]int),
	}
}

// Some flows of a host always fail, others never. Deliveries of the others arrive at once, and the failing flows are
// rarely attempted.
func TestFailingFlowStopsNoOther(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, fails := range map[string]func(int64) (failed, unreached bool, takes time.Duration){
		"answers 500": func(flow int64) (bool, bool, time.Duration) { return flow <= 3, false, 10 * ms },
		"hangs": func(flow int64) (bool, bool, time.Duration) {
			return flow <= 3, flow <= 3, map[bool]time.Duration{true: 15 * s, false: 10 * ms}[flow <= 3]
		},
		"resets": func(flow int64) (bool, bool, time.Duration) { return flow <= 3, flow <= 3, 10 * ms },
	} {
		for _, bad := range []int64{1, 3} {
			t.Run(fmt.Sprint(name, ", ", bad, " of them"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHost(t, fails)
					times := append(every(400*ms, 30, 0), every(4*s, 60, 12*s)...)
					arrivals := map[int64][]time.Duration{4: times, 5: times}
					for flow := range bad {
						arrivals[flow+1] = times
					}
					h.run(arrivals, retries, 5*time.Minute)
					for _, good := range []int64{4, 5} {
						if n := len(h.arrived[good]); n != len(times) {
							t.Errorf("flow %d got %d of %d deliveries", good, n, len(times))
						}
						for i, took := range h.arrived[good] {
							if took > s {
								t.Errorf("delivery %d of flow %d took %s", i, good, took)
							}
						}
					}
					for flow := range bad {
						if n := h.attempts[flow+1]; n > len(times) {
							t.Errorf("flow %d was attempted %d times", flow+1, n)
						}
					}
				})
			})
		}
	}
}

// Two flows of a host have equal traffic, and one of them always fails: only that flow's circuit opens.
func TestHalfOfAHostsAttemptsFail(t *testing.T) {
	c := newClock()
	b := breaker.New(breaker.Options{Policy: breaker.DefaultPolicy(), Log: testkit.Logger(t), Now: c.Now, Random: func() float64 { return 0.5 }})
	h := &host{breaker: b}
	for i := range 40 {
		h.result(1+int64(i%2), c.Now(), false, false, i%2 == 0, false)
	}
	bad, good := shop, shop
	bad.Host, bad.Flow, good.Host, good.Flow = "r.example", 1, "r.example", 2
	for target, open := range map[breaker.Target]bool{bad: true, good: false, good.OfHost(): false} {
		if _, blocked := b.Blocked(target); blocked != open {
			t.Errorf("flow %d: blocked %v", target.Flow, blocked)
		}
	}
}

// A host that can't be reached pauses all its flows once every flow with traffic has failed. One answer to the flow
// that is tried lets all flows through again, even if another flow still fails.
func TestAHostThatIsDown(t *testing.T) {
	c := newClock()
	b := breaker.New(breaker.Options{Policy: policy, Log: testkit.Logger(t), Now: c.Now, Random: func() float64 { return 0.5 }})
	h := &host{breaker: b}
	at := shop
	at.Host = "r.example"
	down := func() bool {
		_, blocked := b.Blocked(at)
		return blocked
	}
	for flow := range int64(3) {
		h.result(flow+1, c.Now(), false, false, false, false)
	}
	for i, flow := range []int64{1, 1, 1, 1, 2, 2, 3} {
		if down() {
			t.Fatalf("paused by failure %d, although a flow may be healthy", i)
		}
		h.result(flow, c.Now(), false, false, true, true)
	}
	if !down() {
		t.Fatal("not paused, although each flow fails")
	}
	pass := func(admitted bool, flow int64, unreached bool) {
		h.result(flow, c.Now(), false, admitted, unreached, unreached)
	}
	ask := func(want int) int {
		return b.Admit(t.Context(), []breaker.Ask{{Target: at, Want: want, Stored: breaker.State{}}}, 20*time.Second)[0].Allowed
	}
	c.pass(10 * time.Second)
	if n := ask(5); n != 1 {
		t.Fatalf("%d probes", n)
	}
	pass(true, 1, true)
	c.pass(10 * time.Second)
	if n := ask(5); n != 0 {
		t.Errorf("%d probes before the second pause has passed", n)
	}
	c.pass(10 * time.Second)
	if n := ask(5); n != 1 {
		t.Fatalf("%d probes after the second pause", n)
	}
	pass(true, 2, false)
	if n := ask(5); n != 2 {
		t.Fatalf("%d at once after an answer", n)
	}
	pass(true, 1, true) // It still hangs, which counts only against this flow.
	pass(true, 2, false)
	for range 10 {
		for range ask(20) {
			pass(true, 2, false)
		}
	}
	if down() {
		t.Error("still paused")
	}
}
