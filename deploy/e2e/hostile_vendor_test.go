//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/provider"
)

const (
	// hostileTokens is the maximum of output tokens of a call to a hostile vendor.
	hostileTokens = 64
	// hostileCeiling is the amount that an organization may spend, in cents: more than the worst real answers cost, less
	// than the usage that hostile vendors report would.
	hostileCeiling = 5
	// earlyCeiling is the amount, in cents, for organizations whose requests are large.
	earlyCeiling = 100_000
	// largeRequest is larger than the buffers of a socket, in bytes.
	largeRequest = 6 << 20
	// repeatedCalls is enough calls for a connection with surplus bytes to be used again.
	repeatedCalls = 30
)

var hostileDialects = []string{"openai", "anthropic", "gemini", "bedrock", "cohere"}

// vendorBehaviours returns all behaviours of a hostile vendor.
func vendorBehaviours() []fault.Behaviour {
	return slices.Concat(fault.Behaviours(), provider.Behaviours())
}

// hostileVendor returns the vendor of a dialect that always behaves in one way. There is one for each behaviour,
// because the state of a vendor's circuit and keys must not hide another behaviour.
func hostileVendor(dialect, behaviour string) vendor {
	name := "hostile-" + dialect + "-" + strings.ReplaceAll(behaviour, "_", "-")
	return vendor{name: name, dialect: dialect, model: name, hostile: behaviour}
}

func hostileVendors() (all []vendor) {
	for _, b := range vendorBehaviours() {
		for _, dialect := range hostileDialects {
			all = append(all, hostileVendor(dialect, b.Name))
		}
	}
	return all
}

// vendorCase tests the vendors of one behaviour, with an organization of its own.
type vendorCase struct {
	behaviour    fault.Behaviour
	organization string
	ai           client
	ceiling      float64
	calls        []*hostileCall
}

// hostileCall is one call to a hostile vendor, and its answer.
type hostileCall struct {
	vendor    vendor
	behaviour fault.Behaviour
	stream    bool
	id        string // of the request
	mark      string // text in the prompt, and so in the fake's own answer
	answer    answer
	err       error
}

func (c *hostileCall) String() string {
	how := "whole"
	if c.stream {
		how = "streamed"
	}
	return c.vendor.dialect + " " + how + " " + c.id
}

// vendorGroups returns tests of the behaviours, in four groups of about the same size.
func (ht *hostileTraffic) vendorGroups(t *testing.T) (groups [4]func(*testing.T)) {
	t.Helper()
	var all []*vendorCase
	for _, b := range vendorBehaviours() {
		one := &vendorCase{behaviour: b, organization: unique("org"), ceiling: hostileCeiling}
		if b.Early {
			one.ceiling = earlyCeiling
		}
		one.ai = ht.customer(t, one.organization, "ai", "read")
		ht.ceiling(t, one.organization, one.ceiling)
		all = append(all, one)
	}
	for i := range groups {
		part := all[i*len(all)/len(groups) : (i+1)*len(all)/len(groups)]
		groups[i] = func(t *testing.T) {
			t.Helper()
			eachAtOnce(part, ht.atOnce, func(b *vendorCase) {
				t.Run(b.behaviour.Name, func(t *testing.T) { ht.callVendors(t, b) })
			})
			t.Run("accounts", func(t *testing.T) {
				eachAtOnce(part, ht.atOnce, func(b *vendorCase) {
					t.Run(b.behaviour.Name, func(t *testing.T) { ht.checkLedger(t, b) })
				})
			})
		}
	}
	return groups
}

// callVendors calls the vendors of a behaviour, all dialects whole and streamed at once, and checks each answer.
func (ht *hostileTraffic) callVendors(t *testing.T, b *vendorCase) {
	t.Helper()
	for _, dialect := range hostileDialects {
		v := hostileVendor(dialect, b.behaviour.Name)
		for _, stream := range []bool{false, true} {
			if stream && dialect == "cohere" || !stream && b.behaviour.StreamOnly {
				continue
			}
			b.calls = append(b.calls, newCall(v, stream))
		}
	}
	atOnce := len(b.calls)
	if b.behaviour.Early {
		atOnce = 1 // several large ones are more than an organization may send at once
	}
	eachAtOnce(b.calls, atOnce, func(c *hostileCall) { ht.call(t, b, c) })
	for _, c := range b.calls {
		c.check(t, b.behaviour)
	}
	if b.behaviour.Outcome == fault.ServedOrRefused {
		ht.repeat(t, b)
	}
	ht.monitor.check(t, b.behaviour.Name)
}

// newCall returns a call that has not been made, with a new id and mark.
func newCall(v vendor, stream bool) *hostileCall {
	return &hostileCall{vendor: v, stream: stream, id: unique("call"), mark: "[" + unique("mark") + "]"}
}

// call makes a call through the edge.
func (ht *hostileTraffic) call(t *testing.T, b *vendorCase, c *hostileCall) {
	t.Helper()
	path, text := chatRoute, c.mark
	if b.behaviour.Early {
		text = strings.Repeat("long words ", largeRequest/len("long words ")) + text
	}
	body := ask(c.vendor.model, text, object{"max_tokens": hostileTokens, "stream": c.stream})
	if c.vendor.dialect == "cohere" {
		path, body = embeddingsRoute, object{"model": c.vendor.model, "input": text, "encoding_format": "float", "dimensions": 8}
	}
	c.answer, c.err = b.ai.with("X-Request-Id", c.id).within(t, path, body)
}

// repeat makes the same call many times, one after the other: each caller must get the answer to its own question.
func (ht *hostileTraffic) repeat(t *testing.T, b *vendorCase) {
	t.Helper()
	var mu sync.Mutex
	eachAtOnce(slices.Clone(b.calls), len(b.calls), func(first *hostileCall) {
		served := 0
		for range repeatedCalls {
			c := newCall(first.vendor, first.stream)
			ht.call(t, b, c)
			c.check(t, b.behaviour)
			if c.served() {
				served++
			}
			mu.Lock()
			b.calls = append(b.calls, c)
			mu.Unlock()
		}
		if served < repeatedCalls/2 {
			t.Errorf("%s: %d of %d calls in a row were served", first.vendor.name, served, repeatedCalls)
		}
	})
}

// served reports whether a call got a whole answer.
func (c *hostileCall) served() bool {
	return c.err == nil && c.answer.status == http.StatusOK && (!c.stream || wholeStream(c.answer.body))
}

// own reports whether the answer that a behaviour lets through is the fake's own.
func own(b fault.Behaviour) bool {
	return b.Outcome == fault.Served || b.Outcome == fault.ServedOrRefused
}

// endsWithConnection reports whether a text behind the stream's last event is part of the answer: Gemini's streams have
// no mark of their end but the end of the response.
func (c *hostileCall) endsWithConnection(b fault.Behaviour) bool {
	return b.Name == "after_done" && c.vendor.dialect == "gemini"
}

// check fails the test unless the answer fits the behaviour and belongs to this call.
func (c *hostileCall) check(t *testing.T, b fault.Behaviour) {
	t.Helper()
	a := c.answer
	switch {
	case c.err != nil:
		t.Errorf("%s: no answer: %v", c, c.err)
		return
	case bytes.Contains(a.body, []byte(fault.Stray)) && !c.endsWithConnection(b):
		t.Errorf("%s: got an answer to another request: %s", c, shorten(a.body))
	case a.status == http.StatusOK && c.stream && !wholeStream(a.body) && !bytes.Contains(a.body, []byte("event: error")):
		t.Errorf("%s: a stream that ends without saying how: %s", c, shorten(a.body))
	case a.status != http.StatusOK:
		var f failure
		if err := json.Unmarshal(a.body, &f); err != nil && c.vendor.dialect != "cohere" {
			t.Errorf("%s: %d without an error body: %v: %s", c, a.status, err, shorten(a.body))
		}
	}
	switch {
	case b.Outcome == fault.Served && !c.served():
		t.Errorf("%s: not served: %d %s", c, a.status, shorten(a.body))
	case own(b) && c.served() && c.vendor.dialect != "cohere" && !bytes.Contains(a.body, []byte(c.mark)):
		t.Errorf("%s: not the answer to its question: %s", c, shorten(a.body))
	case b.Outcome == fault.Refused && c.served():
		t.Errorf("%s: served: %s", c, shorten(a.body))
	case b.Name == "early_429_held" && !bytes.Contains(a.body, []byte("rate_limit")):
		t.Errorf("%s: the vendor's early 429 became %d %s", c, a.status, shorten(a.body))
	}
}

// checkLedger compares the ledger of an organization with the answers that it got, and its spend with its ceiling.
func (ht *hostileTraffic) checkLedger(t *testing.T, b *vendorCase) {
	t.Helper()
	var rows map[string][]ledgerRow
	err := await(t.Context(), waitTimeout, func() error {
		rows = ht.ledger(t, b.organization)
		for _, c := range b.calls {
			if c.served() && len(rows[c.id]) == 0 {
				return fmt.Errorf("%s was served and has no row", c)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", b.behaviour.Name, err)
	}
	for _, c := range b.calls {
		if len(rows[c.id]) > 1 {
			t.Errorf("%s: %s has %d rows", b.behaviour.Name, c, len(rows[c.id]))
		}
		reported, stated := statedCents(c.answer)
		if billed := rows[c.id]; c.served() && stated && len(billed) == 1 {
			if reported != billed[0].Cents {
				t.Errorf("%s: the answer to %s reports %v cents, the ledger has %v", b.behaviour.Name, c, reported, billed[0].Cents)
			}
		}
		delete(rows, c.id)
	}
	for id := range rows {
		t.Errorf("%s: the ledger has a row of %s, a call that was never made", b.behaviour.Name, id)
	}
	var spend struct {
		Spent    float64 `json:"spent_cents"`
		Reserved float64 `json:"reserved_cents"`
	}
	ht.operator(stack.Gateway).get(t, "/v1/admin/orgs/"+b.organization+"/spend").into(t, http.StatusOK, &spend)
	if spend.Spent > b.ceiling || spend.Spent < 0 {
		t.Errorf("%s: %v cents are spent, the ceiling is %v", b.behaviour.Name, spend.Spent, b.ceiling)
	}
	if spend.Reserved != 0 {
		t.Errorf("%s: %v cents are still reserved", b.behaviour.Name, spend.Reserved)
	}
}
