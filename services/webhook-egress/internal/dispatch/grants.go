package dispatch

import (
	"context"

	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/rate"
)

// grants decides how many rows a claim takes of each flow, and records it until the claim ends: unused grants are
// given back.
type grants struct {
	engine *Engine
	free   int

	picked []Picked
	grants []Grant
	places map[int64]int // by flow id, index in picked
	left   []int         // unused slots of each grant
}

// grant asks the slots, then the breaker, then the rate limits. What a later one refuses is given back to the earlier
// ones.
func (g *grants) grant(ctx context.Context, picked []Picked) []Grant {
	g.picked, g.grants = picked, make([]Grant, len(picked))
	g.places, g.left = make(map[int64]int, len(picked)), make([]int, len(picked))
	for i, p := range picked {
		g.places[p.Flow.ID] = i
		want := max(1, min(claimRows, g.free)/len(picked))
		if p.Held {
			want = 1
		}
		g.grants[i].Rows = g.engine.inflight.takeUpTo(p.Flow, want)
		g.left[i] = g.grants[i].Rows
	}
	g.askBreaker(ctx)
	g.askRates(ctx)
	return g.grants
}

// askBreaker asks once per target; the flows of the target share the permit.
func (g *grants) askBreaker(ctx context.Context) {
	var asks []breaker.Ask
	places := make(map[breaker.Target]int)
	for i, p := range g.picked {
		if g.grants[i].Rows == 0 || p.Held {
			continue
		}
		place, known := places[p.Target]
		if !known {
			place = len(asks)
			places[p.Target] = place
			asks = append(asks, breaker.Ask{Target: p.Target})
		}
		asks[place].Want += g.grants[i].Rows
		if p.Breaker.Until.After(asks[place].Stored.Until) {
			asks[place].Stored = p.Breaker
		}
	}
	if len(asks) == 0 {
		return
	}
	permits := g.engine.o.Breaker.Admit(ctx, asks, g.engine.o.Lease)
	for i, p := range g.picked {
		place, asked := places[p.Target]
		if g.grants[i].Rows == 0 || p.Held || !asked {
			continue
		}
		permit := &permits[place]
		n := min(g.grants[i].Rows, permit.Allowed)
		permit.Allowed -= n
		g.cut(i, n)
		g.grants[i].Admitted = permit.Counted && n > 0
		if n == 0 {
			// A flow that got nothing because its target's other flows got it all is examined again soon.
			g.grants[i].Wait, g.grants[i].Park = max(permit.Wait, retryDelay), delivery.FaultBreakerOpen
		}
	}
}

func (g *grants) askRates(ctx context.Context) {
	var asks []rate.Ask
	var places []int
	for i, p := range g.picked {
		if p.Rate > 0 && g.grants[i].Rows > 0 {
			asks, places = append(asks, rate.Ask{Flow: p.Flow.ID, PerSecond: p.Rate, Want: g.grants[i].Rows}), append(places, i)
		}
	}
	if len(asks) == 0 {
		return
	}
	for n, permit := range g.engine.o.Rates.Take(ctx, asks) {
		i := places[n]
		if g.grants[i].Admitted {
			g.void(ctx, g.picked[i].Target, g.grants[i].Rows-permit.Allowed)
		}
		g.cut(i, permit.Allowed)
		g.grants[i].Wait = permit.Wait
	}
}

// cut gives back the slots beyond n.
func (g *grants) cut(i, n int) {
	if unused := g.grants[i].Rows - n; unused > 0 {
		g.engine.inflight.give(g.picked[i].Flow, unused, 0)
		g.grants[i].Rows, g.left[i] = n, n
	}
}

// used takes a slot for a job of the flow and reports whether the breaker counts the job.
func (g *grants) used(flow int64) (admitted bool) {
	i := g.places[flow]
	g.left[i]--
	return g.grants[i].Admitted
}

// giveBack returns the grants for which no row was found.
func (g *grants) giveBack(ctx context.Context) {
	for i, unused := range g.left {
		if unused <= 0 {
			continue
		}
		g.engine.inflight.give(g.picked[i].Flow, unused, 0)
		if g.grants[i].Admitted {
			g.void(ctx, g.picked[i].Target, unused)
		}
	}
}

// void reports to the breaker that n admitted deliveries were not made.
func (g *grants) void(ctx context.Context, target breaker.Target, n int) {
	for range n {
		_, _ = g.engine.observe.Do(ctx, breaker.Observation{Target: target, Report: breaker.Report{Event: breaker.Void, Admitted: true}})
	}
}
