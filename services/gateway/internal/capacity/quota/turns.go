package quota

import "time"

// turns is what organizations were served, and who waits on which replica.
type turns struct {
	served  map[string]float64
	reached float64
	waiting map[string]waitingHead
}

type waitingHead struct {
	served float64
	until  time.Time
}

// behind reports whether a caller on another live replica waits whose organization was served much less.
func (q *turns) behind(r Request, served float64, members map[string]time.Time, now time.Time) bool {
	for replica, head := range q.waiting {
		if replica != r.Replica && head.until.After(now) && now.Sub(members[replica]) < Life && head.served+r.Place.Slack < served {
			return true
		}
	}
	return false
}

// least returns the least that was served to an organization that waits; without any, what was reached.
func (q *turns) least(members map[string]time.Time, now time.Time) float64 {
	least, any := 0.0, false
	for replica, head := range q.waiting {
		if head.until.After(now) && now.Sub(members[replica]) < Life && (!any || head.served < least) {
			least, any = head.served, true
		}
	}
	if !any {
		return q.reached
	}
	return least
}

func (q *turns) known(organization string) bool {
	_, known := q.served[organization]
	return known
}

// wait announces the caller as the replica's first, unless it lacks something that others don't need.
func (q *turns) wait(r Request, g Grant, now time.Time) {
	if !r.Place.Waits {
		return
	}
	longest := time.Duration(-1)
	for i, s := range g.Short {
		if s.Booking < 0 || !r.Alternatives[i][s.Booking].Own && s.Wait <= span {
			longest = max(longest, s.Wait)
		}
	}
	if longest >= 0 {
		q.waiting[r.Replica] = waitingHead{g.Served, now.Add(min(longest, span) + WaitingSlack)}
	}
}

// serve charges a grant to the caller's organization.
func (q *turns) serve(r Request, g *Grant, now time.Time) {
	if q == nil {
		return
	}
	q.reached = max(q.reached, g.Served)
	g.Served += r.Place.Cost
	g.Reached = q.reached
	q.served[r.Place.Organization] = g.Served
	if r.Place.Next >= 0 {
		q.waiting[r.Replica] = waitingHead{r.Place.Next, now.Add(WaitingSlack)}
	} else {
		delete(q.waiting, r.Replica)
	}
}
