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
	// hostileTokens is what each call to a hostile vendor may make at most.
	hostileTokens = 64
	// hostileCeiling is what an organization may spend, in cents: on calls that vendors
	// answer at their worst it is enough, on what they claim it is not.
	hostileCeiling = 5
	// earlyCeiling is that of organizations whose requests are large.
	earlyCeiling = 100_000
	// largeRequest is more than sockets hold.
	largeRequest = 6 << 20
	// repeatedCalls are enough for a connection that holds too much to be used again.
	repeatedCalls = 30
)

var hostileDialects = []string{"openai", "anthropic", "gemini", "cohere"}

// vendorBehaviours are all that a hostile vendor does.
func vendorBehaviours() []fault.Behaviour {
	return slices.Concat(fault.Behaviours(), provider.Behaviours())
}

// hostileVendor is the vendor of a dialect that always behaves in one way. What is
// made of its circuit and its keys must not hide another behaviour.
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

// besieger is the organization that uses the vendors of one behaviour.
type besieger struct {
	behaviour    fault.Behaviour
	organization string
	ai           client
	ceiling      float64
	calls        []*hostileCall
}

// hostileCall is one call to a hostile vendor, and what came of it.
type hostileCall struct {
	vendor    vendor
	behaviour fault.Behaviour
	stream    bool
	id        string // of the request
	mark      string // in the question, and in the fake's own answer
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

// vendorGroups are the behaviours in four groups of about the same number.
func (s *siege) vendorGroups(t *testing.T) (groups [4]func(*testing.T)) {
	t.Helper()
	var all []*besieger
	for _, b := range vendorBehaviours() {
		one := &besieger{behaviour: b, organization: unique("org"), ceiling: hostileCeiling}
		if b.Early {
			one.ceiling = earlyCeiling
		}
		one.ai = s.customer(t, one.organization, "ai", "read")
		s.ceiling(t, one.organization, one.ceiling)
		all = append(all, one)
	}
	for i := range groups {
		part := all[i*len(all)/len(groups) : (i+1)*len(all)/len(groups)]
		groups[i] = func(t *testing.T) {
			t.Helper()
			eachAtOnce(part, s.atOnce, func(b *besieger) {
				t.Run(b.behaviour.Name, func(t *testing.T) { s.besiege(t, b) })
			})
			t.Run("accounts", func(t *testing.T) {
				for _, b := range part {
					s.audit(t, b)
				}
			})
		}
	}
	return groups
}

// besiege calls the vendors of a behaviour, all dialects whole and streamed at once,
// and looks at each answer.
func (s *siege) besiege(t *testing.T, b *besieger) {
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
		atOnce = 1 // large ones together are more than an organization may send at once
	}
	eachAtOnce(b.calls, atOnce, func(c *hostileCall) { s.call(t, b, c) })
	for _, c := range b.calls {
		c.check(t, b.behaviour)
	}
	if b.behaviour.Outcome == fault.ServedOrRefused {
		s.repeat(t, b)
	}
	s.guard.check(t, b.behaviour.Name)
}

// newCall makes up a call.
func newCall(v vendor, stream bool) *hostileCall {
	return &hostileCall{vendor: v, stream: stream, id: unique("call"), mark: "[" + unique("mark") + "]"}
}

// call makes a call through the edge.
func (s *siege) call(t *testing.T, b *besieger, c *hostileCall) {
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

// repeat makes the same call many times, one after the other: each caller gets the
// answer to his own question.
func (s *siege) repeat(t *testing.T, b *besieger) {
	t.Helper()
	var mu sync.Mutex
	eachAtOnce(slices.Clone(b.calls), len(b.calls), func(first *hostileCall) {
		served := 0
		for range repeatedCalls {
			c := newCall(first.vendor, first.stream)
			s.call(t, b, c)
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

// served reports whether a call was answered with a whole answer.
func (c *hostileCall) served() bool {
	return c.err == nil && c.answer.status == http.StatusOK && (!c.stream || wholeStream(c.answer.body))
}

// own reports whether what is served of a behaviour is the fake's own answer.
func own(b fault.Behaviour) bool {
	return b.Outcome == fault.Served || b.Outcome == fault.ServedOrRefused
}

// goesOn reports whether a text behind the stream's last event is the answer's own:
// Gemini's streams have no mark of their end but the end of the response.
func (c *hostileCall) goesOn(b fault.Behaviour) bool {
	return b.Name == "after_done" && c.vendor.dialect == "gemini"
}

// check wants an answer that fits the behaviour and belongs to this call.
func (c *hostileCall) check(t *testing.T, b fault.Behaviour) {
	t.Helper()
	a := c.answer
	switch {
	case c.err != nil:
		t.Errorf("%s: no answer: %v", c, c.err)
		return
	case bytes.Contains(a.body, []byte(fault.Stray)) && !c.goesOn(b):
		t.Errorf("%s: got an answer that is not his: %s", c, shorten(a.body))
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

// audit holds the ledger of an organization against what it was answered, and its
// spend against its ceiling.
func (s *siege) audit(t *testing.T, b *besieger) {
	t.Helper()
	var rows map[string][]ledgerRow
	err := await(t.Context(), patience, func() error {
		rows = s.ledger(t, b.organization)
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
				t.Errorf("%s: %s was told %v cents, the ledger has %v", b.behaviour.Name, c, reported, billed[0].Cents)
			}
		}
		delete(rows, c.id)
	}
	for id := range rows {
		t.Errorf("%s: a row of %s, which was never asked", b.behaviour.Name, id)
	}
	var spend struct {
		Spent    float64 `json:"spent_cents"`
		Reserved float64 `json:"reserved_cents"`
	}
	s.operator(stack.Gateway).get(t, "/v1/admin/orgs/"+b.organization+"/spend").into(t, http.StatusOK, &spend)
	if spend.Spent > b.ceiling || spend.Spent < 0 {
		t.Errorf("%s: %v cents are spent, the ceiling is %v", b.behaviour.Name, spend.Spent, b.ceiling)
	}
	if spend.Reserved != 0 {
		t.Errorf("%s: %v cents are still set aside", b.behaviour.Name, spend.Reserved)
	}
}
