package dispatch_test

import (
	"fmt"
	"testing"
)

// A model of one delivery in the queue and two replicas, small enough to look at
// every order in which things can happen. It stands for the rules that claim,
// settle, bury and drain follow in SQL; that the SQL follows them is what the
// tests on a real store show (TestFence, TestLostFence, TestTakeOver).

// replicaModel holds a lease, or none. A replica that was given up still holds
// what it took: it does not know.
type replicaModel struct {
	Holds bool
	Seq   int
}

type rowModel struct {
	Queued   bool
	Seq      int
	Leased   bool // the lease runs; false: it may be taken
	Parked   bool
	Ended    bool
	Counted  int // results that changed the delivery
	Sent     int // requests that were made
	Current  int // the only lease whose result may count; -1 for none
	Wrong    string
	Replicas [2]replicaModel
}

const (
	maxSeq  = 5 // leases of the delivery that are looked at
	maxSent = 3
)

// rules are the design; taking one away must be noticed.
type rules struct {
	fence       bool // a result counts only under the lease it was made with
	advance     bool // giving a row back moves the fence on
	parkKeeps   bool // a parked row is not claimed
	resendAbove bool // a resend begins above every fence before it
}

// next gives every state that can follow.
func (m rowModel) next(r rules) []rowModel {
	var all []rowModel
	add := func(change func(*rowModel)) {
		n := m
		change(&n)
		all = append(all, n)
	}
	if m.Leased { // the lease runs out, or its replica is given up
		add(func(n *rowModel) { n.Leased = false })
	}
	if m.Queued && m.Parked {
		add(func(n *rowModel) { n.Parked = false })
	}
	if m.Queued && !m.Parked && !m.Leased {
		add(func(n *rowModel) { n.Parked = true })
	}
	if m.Queued && !m.Leased { // cancelled through the API while it waits
		add(func(n *rowModel) { n.Queued, n.Ended, n.Current = false, true, -1 })
	}
	if m.Ended && m.Seq < maxSeq { // resent
		add(func(n *rowModel) {
			n.Queued, n.Ended, n.Leased, n.Parked, n.Counted = true, false, false, false, 0
			if r.resendAbove {
				n.Seq++
			}
		})
	}
	for i := range m.Replicas {
		m.replica(r, i, add)
	}
	return all
}

func (m rowModel) replica(r rules, i int, add func(func(*rowModel))) {
	me := m.Replicas[i]
	claimable := m.Queued && !m.Leased && (!m.Parked || !r.parkKeeps)
	if claimable && !me.Holds && m.Seq < maxSeq && m.Sent < maxSent {
		add(func(n *rowModel) {
			if m.Parked {
				n.Wrong = "a parked row was claimed"
			}
			n.Seq++
			n.Leased, n.Sent, n.Current = true, n.Sent+1, 2*n.Sent+i // which try is the current one
			n.Replicas[i] = replicaModel{true, n.Seq}
		})
	}
	if !me.Holds {
		return
	}
	holds := m.Queued && (!r.fence || m.Seq == me.Seq)
	for _, ends := range []bool{true, false} {
		add(func(n *rowModel) { // settle
			n.Replicas[i] = replicaModel{}
			if !holds {
				return // late
			}
			if m.Current < 0 || m.Current%2 != i {
				n.Wrong = "a result counted that was not of the current lease"
			}
			n.Counted++
			n.Leased, n.Current = false, -1
			switch {
			case ends:
				n.Queued, n.Ended = false, true
			case r.advance:
				n.Seq++
			}
		})
	}
	add(func(n *rowModel) { // the answer of a settle got lost: the same result again
		if !holds {
			return
		}
		n.Counted++
		n.Leased, n.Current = false, -1
		if m.Current < 0 {
			n.Wrong = "a result counted twice"
		}
		if r.advance {
			n.Seq++
		}
	})
}

// explore looks at all states and gives the first thing that went wrong.
func explore(r rules) (wrong string, states int) {
	start := rowModel{Queued: true, Current: -1}
	seen := map[rowModel]bool{start: true}
	for todo := []rowModel{start}; len(todo) > 0; todo = todo[1:] {
		for _, n := range todo[0].next(r) {
			switch {
			case n.Wrong != "":
				return n.Wrong, len(seen)
			case !n.Queued && !n.Ended:
				return fmt.Sprintf("lost: %+v", n), len(seen)
			case n.Counted > n.Sent:
				return fmt.Sprintf("counted more than was sent: %+v", n), len(seen)
			}
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return "", len(seen)
}

func TestModel(t *testing.T) {
	whole := rules{fence: true, advance: true, parkKeeps: true, resendAbove: true}
	wrong, states := explore(whole)
	if wrong != "" || states < 300 {
		t.Errorf("%d states: %s", states, wrong)
	}
	t.Logf("%d states", states)
	for name, broken := range map[string]rules{
		"no fence":                 {advance: true, parkKeeps: true, resendAbove: true},
		"a return keeps the fence": {fence: true, parkKeeps: true, resendAbove: true},
		"parked rows are claimed":  {fence: true, advance: true, resendAbove: true},
		"a resend keeps the fence": {fence: true, advance: true, parkKeeps: true},
	} {
		if wrong, _ := explore(broken); wrong == "" {
			t.Errorf("%s: not noticed", name)
		} else {
			t.Logf("%s: %s", name, wrong)
		}
	}
}
