package dispatch

import (
	"context"
	"slices"

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
	g.askCircuits(ctx)
	g.askRates(ctx)
	return g.grants
}

// askCircuits asks the circuits of the flows, and then the circuits of their hosts about the rows that are left.
func (g *grants) askCircuits(ctx context.Context) {
	var asks []breaker.Ask
	var places []int
	for i, p := range g.picked {
		if g.grants[i].Rows > 0 && !p.Held {
			asks, places = append(asks, breaker.Ask{Target: p.Target, Want: g.grants[i].Rows, Stored: p.Own}), append(places, i)
		}
	}
	if len(asks) == 0 {
		return
	}
	for n, permit := range g.engine.o.Breaker.Admit(ctx, asks, g.engine.o.Lease) {
		g.permit(places[n], permit)
		g.grants[places[n]].Admitted = permit.Counted && permit.Allowed > 0
	}
	g.askHosts(ctx, places)
}

// askHosts asks each host's circuit once. The flows of a host share its permit in the order in which they became ready,
// so that they take turns to probe the host.
func (g *grants) askHosts(ctx context.Context, places []int) {
	slices.SortStableFunc(places, func(a, b int) int { return g.picked[a].Ready.Compare(g.picked[b].Ready) })
	var asks []breaker.Ask
	hosts := make(map[breaker.Target]int)
	for _, i := range places {
		if g.grants[i].Rows == 0 {
			continue
		}
		host := g.picked[i].Target.OfHost()
		place, known := hosts[host]
		if !known {
			place = len(asks)
			hosts[host] = place
			asks = append(asks, breaker.Ask{Target: host})
		}
		asks[place].Want += g.grants[i].Rows
		if g.picked[i].Host.Until.After(asks[place].Stored.Until) {
			asks[place].Stored = g.picked[i].Host
		}
	}
	permits := g.engine.o.Breaker.Admit(ctx, asks, g.engine.o.Lease)
	for _, i := range places {
		if g.grants[i].Rows == 0 {
			continue
		}
		permit := &permits[hosts[g.picked[i].Target.OfHost()]]
		n := min(g.grants[i].Rows, permit.Allowed)
		if g.grants[i].Admitted {
			g.void(ctx, g.picked[i].Target, g.grants[i].Rows-n)
		}
		g.permit(i, breaker.Permit{Allowed: n, Wait: permit.Wait})
		g.grants[i].AdmittedByHost, g.grants[i].ByHost = permit.Counted && n > 0, n == 0
		permit.Allowed -= n
	}
}

// permit reduces a grant to what a circuit allows. A flow that gets nothing because other flows got everything is
// examined again soon.
func (g *grants) permit(i int, permit breaker.Permit) {
	g.cut(i, permit.Allowed)
	if permit.Allowed == 0 {
		g.grants[i].Wait, g.grants[i].Park = max(permit.Wait, retryDelay), delivery.FaultBreakerOpen
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
		g.voidUnused(ctx, i, g.grants[i].Rows-permit.Allowed)
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

// used takes a slot for a job of the flow and reports whether the flow's and the host's circuit count the job.
func (g *grants) used(flow int64) (admitted, byHost bool) {
	i := g.places[flow]
	g.left[i]--
	return g.grants[i].Admitted, g.grants[i].AdmittedByHost
}

// giveBack returns the grants for which no row was found.
func (g *grants) giveBack(ctx context.Context) {
	for i, unused := range g.left {
		if unused <= 0 {
			continue
		}
		g.engine.inflight.give(g.picked[i].Flow, unused, 0)
		g.voidUnused(ctx, i, unused)
	}
}

// voidUnused reports that n rows of a grant are not used, to each circuit that counts the grant's rows.
func (g *grants) voidUnused(ctx context.Context, i, n int) {
	if g.grants[i].Admitted {
		g.void(ctx, g.picked[i].Target, n)
	}
	if g.grants[i].AdmittedByHost {
		g.void(ctx, g.picked[i].Target.OfHost(), n)
	}
}

// void reports to the breaker that n admitted deliveries were not made.
func (g *grants) void(ctx context.Context, target breaker.Target, n int) {
	for range n {
		_, _ = g.engine.observe.Do(ctx, breaker.Observation{Target: target, Report: breaker.Report{Event: breaker.Void, Admitted: true}})
	}
}
