package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/gateway/internal/mcp/ticket/tickettest"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/serving/health"
)

// claims are Claims in memory.
type claims struct {
	mu    sync.Mutex
	used  map[string]time.Time
	given int // back
	err   error
}

func (c *claims) Claim(_ context.Context, organization, id string, expires time.Time) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := organization + " " + id
	if c.err != nil || !c.used[key].IsZero() {
		return false, c.err
	}
	c.used[key] = expires
	return true, nil
}

func (c *claims) Unclaim(_ context.Context, organization, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given++
	delete(c.used, organization+" "+id)
	return c.err
}

// capable is what a caller declares that can do everything.
const capable = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

const (
	askName  = `"name":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","$ref":"#","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	askModel = `"model":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}`
	askRoots = `"roots":{"method":"roots/list"}`
	ann      = `"name":{"action":"accept","content":{"name":"ann"}}`
)

// asking returns a result that requires input.
func asking(requests ...string) upstream.Result {
	return upstream.Result{
		Kind: upstream.KindInputRequired, Version: "2026-07-28",
		Text: json.RawMessage(`{"resultType":"input_required","inputRequests":{` + strings.Join(requests, ",") + `},"requestState":"theirs"}`),
	}
}

// roundly returns a world whose servers may ask callers. Its calls are answered in the order of answers; the last one again
// and again.
func roundly(t testing.TB, answers ...upstream.Result) (*Caller, *world, *claims) {
	t.Helper()
	c, w := open(t)
	used := seals(t, c)
	w.answers(answers...)
	return c, w, used
}

// seals makes a caller give states to those that call.
func seals(t testing.TB, c *Caller) *claims {
	t.Helper()
	used := &claims{used: map[string]time.Time{}}
	c.Tickets, c.Claims = &ticket.Tickets{Sealer: tickettest.Keys(t, tickettest.First)}, used
	return used
}

// answers makes calls be answered in an order.
func (w *world) answers(all ...upstream.Result) {
	n := 0
	w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) {
		answer := all[min(n, len(all)-1)]
		n++
		return answer, nil
	}
}

var done = upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"content":[]}`)}

// able returns a request of a caller that can do everything.
func able(arguments string) *Request {
	r := request(read, arguments)
	r.Client.Capabilities = json.RawMessage(capable)
	return r
}

// next returns the request that continues a call.
func next(r *Request, answer Answer, inputs string) *Request {
	again := *r
	again.RequestID += "+"
	again.Client.State, again.Client.Inputs = stateOf(answer.Text), json.RawMessage("{"+inputs+"}")
	return &again
}

// stateOf returns the state in a result; empty for none.
func stateOf(text json.RawMessage) string {
	var of struct {
		Type  string `json:"resultType"`
		State string `json:"requestState"`
	}
	if json.Unmarshal(text, &of) != nil || of.Type != "input_required" {
		return ""
	}
	return of.State
}

// requestsOf returns the requests in a result.
func requestsOf(text json.RawMessage) string {
	var of struct {
		Requests json.RawMessage `json:"inputRequests"`
	}
	if json.Unmarshal(text, &of) != nil {
		return ""
	}
	return string(of.Requests)
}

// begin makes the first round of a call, which asks.
func begin(t testing.TB, c *Caller, r *Request) Answer {
	t.Helper()
	answer, err := c.Call(t.Context(), r)
	if err != nil || stateOf(answer.Text) == "" || answer.Kind != upstream.KindInputRequired {
		t.Fatalf("%s %v", answer.Text, err)
	}
	return answer
}

var errReset = errors.New("reset")

// noLimits are Limits that let everything through, noCircuits are Circuits that do.
type (
	noLimits   struct{}
	noCircuits struct{}
)

func (noLimits) TryReserve(context.Context, quota.Demand) (*quota.Reservation, error) {
	return nil, nil
}

func (noCircuits) Acquire(context.Context, health.Circuit) (func(context.Context, health.Verdict), *health.Refusal) {
	return func(context.Context, health.Verdict) {}, nil
}
