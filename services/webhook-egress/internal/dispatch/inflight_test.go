package dispatch

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"pgregory.net/rapid"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestRoomShares(t *testing.T) {
	r := newInflight(LimitsOf(16, 64<<20)) // flow 4, organization 8, fresh 12
	a1, a2, a3 := delivery.Flow{ID: 1, Organization: "a"}, delivery.Flow{ID: 2, Organization: "a"}, delivery.Flow{ID: 3, Organization: "a"}
	b := delivery.Flow{ID: 4, Organization: "b"}
	for _, step := range []struct {
		flow delivery.Flow
		want int
		got  int
	}{{a1, 10, 4}, {a2, 3, 3}, {a3, 10, 1}, {a1, 1, 0}, {b, 10, 4}} {
		if got := r.takeUpTo(step.flow, step.want); got != step.got {
			t.Errorf("flow %d wanted %d and got %d, want %d", step.flow.ID, step.want, got, step.got)
		}
	}
	flows, organizations, free, _ := r.full()
	if len(flows) != 2 {
		t.Errorf("full flows %v, want 2", flows)
	}
	if !slices.Equal(organizations, []string{"a"}) {
		t.Errorf("full organizations %v, want a", organizations)
	}
	if free != 4 {
		t.Errorf("%d slots are free, want 4", free)
	}
	if r.takeFresh(delivery.Flow{ID: 5, Organization: "c"}, 1) {
		t.Error("a new delivery took what is kept for retries")
	}
	if r.takeUpTo(delivery.Flow{ID: 5, Organization: "c"}, 1) != 1 {
		t.Error("a retry got no slot")
	}
}

func TestNewDeliveriesDontOvertake(t *testing.T) {
	r := newInflight(LimitsOf(16, 64<<20)) // flow 4
	flow := delivery.Flow{ID: 1, Organization: "a"}
	r.waiting(1)
	if r.takeUpTo(flow, 3); r.takeFresh(flow, 1) {
		t.Error("sent past a backlog that the claims have slots for")
	}
	if r.give(flow, 1, 0); !r.takeFresh(flow, 1) {
		t.Error("not sent although the claims leave the flow's share unused")
	}
	if r.takeFresh(flow, 1) || r.takeUpTo(flow, 4) != 1 {
		t.Error("took the quarter of the flow's share that is the claims' own")
	}
	r.give(flow, 4, 1)
	r.drained(1)
	if !r.takeFresh(flow, 1) {
		t.Error("not sent after the backlog")
	}
	r.waiting(1)
	r.idle() // worked off by another replica
	if !r.takeFresh(flow, 1) || r.give(flow, 1, 1) {
		t.Error("a backlog that is gone is still held against its flow")
	}
	if r.takeFresh(delivery.Flow{ID: 2, Organization: "a", Metered: true}, 1) {
		t.Error("sent to a metered flow")
	}
}

func TestRoomCloses(t *testing.T) {
	r := newInflight(LimitsOf(4, 64<<20))
	flow := delivery.Flow{ID: 1, Organization: "a"}
	if !r.takeFresh(flow, 1) {
		t.Fatal("no slot")
	}
	empty := r.close()
	select {
	case <-empty:
		t.Error("empty with one inside")
	default:
	}
	if r.takeFresh(flow, 1) || r.takeUpTo(flow, 1) != 0 {
		t.Error("let in after the close")
	}
	r.give(flow, 1, 1)
	<-empty
	<-r.close()
}

// ready is a store in which many flows are ready, each with many rows.
type ready struct{ granted []int }

func (s *ready) Claim(ctx context.Context, c Claim) (Claimed, error) {
	picked := make([]Picked, c.Flows)
	for id := range picked {
		organization := strconv.Itoa(id)
		picked[id].Flow = delivery.Flow{ID: int64(id), Organization: organization}
		picked[id].Target = breaker.Target{Organization: organization, Host: "example.com", Port: 443}
	}
	for _, grant := range c.Grant(ctx, picked) {
		s.granted = append(s.granted, grant.Rows)
	}
	return Claimed{Flows: c.Flows}, nil
}

func (s *ready) Settle(context.Context, []Result) ([]bool, error) { return nil, nil }

// alone is the only replica.
type alone struct{}

func (alone) ID() int64                   { return 1 }
func (alone) Leave(context.Context) error { return nil }

// A claim's first flows must not take the slots that all of them could share.
func TestFlowsShareTheRoom(t *testing.T) {
	s := &ready{}
	closed := breaker.New(breaker.Options{Policy: breaker.DefaultPolicy(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	e, err := New(Options{Store: s, Replica: alone{}, Limits: LimitsOf(2*claimFlows, 64<<20), Meter: noop.NewMeterProvider().Meter("t"), Breaker: closed})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slices.Min(s.granted) != 2 || slices.Max(s.granted) != 2 || e.inflight.count() != 0 {
		t.Errorf("granted %v, kept %d", s.granted, e.inflight.count())
	}
}

// Whatever happens, no share is exceeded and nothing stays behind.
func TestRoomAccounts(t *testing.T) {
	const size = 100
	rapid.Check(t, func(t *rapid.T) {
		r := newInflight(LimitsOf(rapid.IntRange(4, 40).Draw(t, "total"), rapid.IntRange(1, 20).Draw(t, "bodies")*size))
		held, fresh := map[delivery.Flow]int{}, map[delivery.Flow]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.Int64Range(1, 6).Draw(t, "flow")
			flow := delivery.Flow{ID: id, Organization: string(rune('a' + id%2))}
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				held[flow] += r.takeUpTo(flow, rapid.IntRange(0, 9).Draw(t, "want"))
			case 1:
				if r.takeFresh(flow, size) {
					held[flow]++
					fresh[flow]++
				}
			case 2:
				if held[flow] > 0 {
					r.give(flow, held[flow], fresh[flow]*size)
					held[flow], fresh[flow] = 0, 0
				}
			}
			total, bytes, organizations := 0, 0, map[string]int{}
			for f, n := range held {
				total, bytes = total+n, bytes+fresh[f]*size
				organizations[f.Organization] += n
				if n > r.limits.Flow {
					t.Fatalf("flow %d holds %d", f.ID, n)
				}
			}
			if total > r.limits.Total || total != r.count() || max(organizations["a"], organizations["b"]) > r.limits.Organization {
				t.Fatalf("held %v of %+v, counted %d", held, r.limits, r.count())
			}
			if bytes != r.inMemory() || bytes > r.limits.Bytes/4*3 {
				t.Fatalf("bodies of %d bytes of %+v, counted %d", bytes, r.limits, r.inMemory())
			}
		}
		for f, n := range held {
			if n > 0 {
				r.give(f, n, fresh[f]*size)
			}
		}
		if len(r.flows)+len(r.organizations)+r.total+r.bytes != 0 {
			t.Fatalf("left behind: %v %v %d, %d bytes", r.flows, r.organizations, r.total, r.bytes)
		}
	})
}

// Without memory for a body nothing is claimed, and giving some back wakes the
// claim.
func TestMemoryIsBounded(t *testing.T) {
	r := newInflight(LimitsOf(16, MinBytes))
	flow := delivery.Flow{ID: 1, Organization: "a"}
	if r.takeUpTo(flow, 1) != 1 {
		t.Fatal("no slot")
	}
	body := MinBytes - claimBytes + 1
	r.takeBytes(body)
	if _, _, free, bytes := r.full(); free != 0 || bytes != 0 {
		t.Errorf("a claim may take %d rows with %d bytes", free, bytes)
	}
	if r.takeFresh(delivery.Flow{ID: 2, Organization: "b"}, 1) {
		t.Error("a new delivery was let in without memory")
	}
	if !r.give(flow, 1, body) {
		t.Error("nobody is woken")
	}
	if _, _, free, bytes := r.full(); free != 16 || bytes != MinBytes {
		t.Errorf("%d rows, %d bytes free", free, bytes)
	}
}

// Who gives back a share wakes the claim only for what may go on with it.
func TestWhoIsWoken(t *testing.T) {
	hung := delivery.Flow{ID: 1, Organization: "a"}
	sibling := delivery.Flow{ID: 2, Organization: "a"}
	other := delivery.Flow{ID: 3, Organization: "b"}
	limits := Limits{Total: 8, Organization: 4, Flow: 3, Fresh: 8, Bytes: MinBytes}
	for name, tt := range map[string]struct {
		hold  map[delivery.Flow]int // slots that are taken
		waits delivery.Flow
		gives delivery.Flow
		woken bool
	}{
		"its own share":                    {map[delivery.Flow]int{hung: 3, other: 1}, hung, hung, true},
		"another organization's":           {map[delivery.Flow]int{hung: 3, other: 1}, hung, other, false},
		"its organization's, used up":      {map[delivery.Flow]int{hung: 3, sibling: 1}, sibling, hung, true},
		"its organization's, which is not": {map[delivery.Flow]int{hung: 1, sibling: 1, other: 1}, hung, sibling, false},
		"the last slot of all":             {map[delivery.Flow]int{hung: 3, sibling: 1, other: 3, {ID: 4, Organization: "c"}: 1}, hung, other, true},
	} {
		r := newInflight(limits)
		for flow, n := range tt.hold {
			if got := r.takeUpTo(flow, n); got != n {
				t.Fatalf("%s: %d slots", name, got)
			}
		}
		r.waiting(tt.waits.ID)
		r.full() // a claim looked, and found what it found
		if got := r.answered(tt.gives, 0); got != tt.woken {
			t.Errorf("%s: woken %v", name, got)
		}
	}
}
