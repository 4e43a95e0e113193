//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// exportKills is how often the control is killed while it exports.
const exportKills = 100

// meter is what a customer used of something, at a billing system.
type meter struct{ dialect, name string }

// exported returns the sums of an organization's events at the billing systems.
func (h *harness) exported(t *testing.T, organization string) map[meter]*big.Rat {
	t.Helper()
	var page struct {
		Events []struct{ Dialect, Name, Customer, Value string }
	}
	h.fake(stack.FakeBilling).get(t, "/_events?limit=100000").into(t, http.StatusOK, &page)
	sums := make(map[meter]*big.Rat)
	for _, e := range page.Events {
		value, ok := new(big.Rat).SetString(e.Value)
		if !ok {
			t.Fatalf("the value %q of %s is no number", e.Value, e.Name)
		}
		if e.Customer == organization {
			m := meter{e.Dialect, e.Name}
			if sums[m] == nil {
				sums[m] = new(big.Rat)
			}
			sums[m].Add(sums[m], value)
		}
	}
	return sums
}

// metered returns what the edge's counts and the ledger have of an organization, in the meters of the stack's exports.
func (h *harness) metered(t *testing.T, organization string) map[meter]*big.Rat {
	t.Helper()
	calls := new(big.Rat).SetInt64(h.counted(t, organization, "llm_requests"))
	pico, tokens := new(big.Rat), new(big.Rat)
	gateway, cursor := h.service(stack.Gateway, organization), ""
	for {
		var page struct {
			Records []struct {
				Pico      string `json:"cost_pico_usd"`
				Input     int64  `json:"input_tokens"`
				Output    int64  `json:"output_tokens"`
				Reasoning int64  `json:"reasoning_tokens"`
			}
			Next string `json:"next_cursor"`
		}
		gateway.get(t, "/v1/usage?limit=200&cursor="+cursor).into(t, http.StatusOK, &page)
		if len(page.Records) == 0 {
			break
		}
		for _, r := range page.Records {
			cost, _ := new(big.Rat).SetString(r.Pico)
			pico.Add(pico, cost)
			tokens.Add(tokens, new(big.Rat).SetInt64(r.Input+r.Output+r.Reasoning))
		}
		cursor = page.Next
	}
	cents := new(big.Rat).Quo(pico, big.NewRat(10_000_000_000, 1))
	return map[meter]*big.Rat{
		{"stripe", "calls"}: calls, {"openmeter", "calls"}: calls, {"lago", "calls"}: calls,
		{"stripe", "cost"}: pico, {"openmeter", "cost"}: cents, {"lago", "cost"}: cents, {"openmeter", "tokens"}: tokens,
	}
}

// difference returns the first meter in which two sums differ; nil for none.
func difference(want, got map[meter]*big.Rat) error {
	for m, w := range want {
		if g := got[m]; g == nil || g.Cmp(w) != 0 {
			return fmt.Errorf("%s has %v %s, want %s", m.dialect, g, m.name, w.FloatString(10))
		}
	}
	for m, g := range got {
		if want[m] == nil {
			return fmt.Errorf("%s has %v %s, want none", m.dialect, g, m.name)
		}
	}
	return nil
}

// The control is killed again and again while calls are counted and the billing systems fail now and then. What they
// have in the end, each event counted once, is exactly what the edge counted and what the ledger has.
func TestExportIsExactOverKills(t *testing.T) {
	t.Parallel()
	h := plan{name: "exports", idle: true, fakes: []stack.Fake{stack.FakeBilling}}.start(t)
	organization := unique("org")
	ai := h.customer(t, organization, "ai", "read")
	var faults []rule
	for _, action := range []object{
		{"retry_after": "1"}, {"status": 503}, {"drop": true}, {"after_bytes": 0}, {"status": 500}, {"delay_ms": 200},
	} {
		faults = append(faults, rule{Match: object{"method": "POST"}, Times: 3, Action: action}, rule{Match: object{"method": "POST"}, Times: 40, Action: object{"delay_ms": 5}})
	}
	h.script(t, stack.FakeBilling, faults...)
	customers := newLoadGenerator(t)
	customers.start(2, func(caller int) {
		model := []string{"sandbox", guarded.model}[caller]
		ai.post(t, chatRoute, ask(model, "hello", object{"max_tokens": 20})).want(t, http.StatusOK)
		customers.pause(50 * time.Millisecond)
	})
	total := func() (n struct{ Total int }) {
		h.fake(stack.FakeBilling).get(t, "/_count").into(t, http.StatusOK, &n)
		return n
	}
	for kill := range exportKills {
		before := total().Total
		waitFor(t, waitTimeout, fmt.Sprint("exports after kill ", kill), func() error {
			if total().Total == before {
				return errors.New("none")
			}
			return nil
		})
		if err := h.Kill(string(stack.Control)); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), string(stack.Control)); err != nil {
			t.Fatal(err)
		}
	}
	customers.stop()
	waitFor(t, waitTimeout, "equal sums", func() error { return difference(h.metered(t, organization), h.exported(t, organization)) })
	var repeats struct {
		Repeated int
		Changed  []string
	}
	h.fake(stack.FakeBilling).get(t, "/_repeats").into(t, http.StatusOK, &repeats)
	if len(repeats.Changed) > 0 {
		t.Errorf("events came again with other values: %v", repeats.Changed)
	}
	t.Logf("%d events, %d of them came again, over %d kills", total().Total, repeats.Repeated, exportKills)
	h.backfillDoublesNothing(t, organization, repeats.Repeated)
}

// backfillDoublesNothing checks that a back-fill of hours that a destination has adds nothing. Before it so many
// events had come again.
func (h *harness) backfillDoublesNothing(t *testing.T, organization string, before int) {
	t.Helper()
	operator, end := h.operator(stack.Edge), time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	var answer struct{ Backfills []int64 }
	operator.post(t, "/admin/v1/exports/lago/backfill", object{"from": end.Add(-2 * time.Hour), "to": end}).into(t, http.StatusAccepted, &answer)
	if len(answer.Backfills) != 2 {
		t.Errorf("%d back-fills, want one of the counts and one of the ledger", len(answer.Backfills))
	}
	waitFor(t, waitTimeout, "the end of the back-fill", func() error {
		var status struct {
			Destinations []struct {
				Name      string
				Backfills []struct {
					Finished *time.Time `json:"finished_at"`
				}
			}
		}
		operator.get(t, "/admin/v1/exports").into(t, http.StatusOK, &status)
		for _, d := range status.Destinations {
			for _, b := range d.Backfills {
				if b.Finished == nil {
					return fmt.Errorf("%s is not finished", d.Name)
				}
			}
		}
		return nil
	})
	var repeats struct{ Repeated int }
	h.fake(stack.FakeBilling).get(t, "/_repeats").into(t, http.StatusOK, &repeats)
	if repeats.Repeated <= before {
		t.Errorf("%d events came again, of which %d before the back-fill; want more", repeats.Repeated, before)
	}
	if err := difference(h.metered(t, organization), h.exported(t, organization)); err != nil {
		t.Errorf("after the back-fill: %v", err)
	}
}
