package inference

import (
	"context"
	"math"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

// pieces returns a stream of calls whose arguments come in n pieces each.
func pieces(calls, n int) []provider.Event {
	var events []provider.Event
	for i := range calls * n {
		call := provider.ToolCall{Index: i % calls, Arguments: "1234"}
		if i < calls {
			call.Name = "deploy"
		}
		events = append(events, provider.Event{ToolCalls: []provider.ToolCall{call}})
	}
	return events
}

// Joining arguments costs time in proportion to the number of pieces, wherever they are joined.
func TestPiecesOfCallsAreProportional(t *testing.T) {
	tools := toolApprovals{source: decide(), needs: func(string) bool { return true }, request: asking("exact")}
	for name, take := range map[string]func() func(provider.Event){
		"approvals": func() func(provider.Event) {
			g := tools.newCheck(nil)
			return func(e provider.Event) {
				if _, err := g.pass(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
		},
		"cache": func() func(provider.Event) { return new(recording).add },
		"trace": func() func(provider.Event) {
			return (&record{Observation: trace.Observation{Keep: math.MaxInt}}).received
		},
		"bound": func() func(provider.Event) {
			limit := new(provider.CallLimit)
			return func(e provider.Event) {
				if err := limit.Add(e.Text, e.ToolCalls); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		for shape, calls := range map[string]int{"one call": 1, "many calls": 100} {
			t.Run(name+", "+shape, func(t *testing.T) {
				providertest.Proportional(t, 3000/calls, func(n int) func() {
					events, take := pieces(calls, n), take()
					return func() {
						for _, e := range events {
							take(e)
						}
					}
				})
			})
		}
	}
}

// The memory that an approvalCheck holds is bounded, whatever the stream contains.
func TestApprovalCheckIsBounded(t *testing.T) {
	tools := toolApprovals{source: decide(), needs: func(tool string) bool { return tool == "deploy" }, request: asking("exact")}
	for name, event := range map[string]provider.Event{
		"frames that say nothing":   {Native: []byte("{}")},
		"deltas that say nothing":   {ToolCalls: []provider.ToolCall{{Index: 1}}},
		"deltas of an unnamed call": {ToolCalls: []provider.ToolCall{{Index: 1, Arguments: "1234"}}},
		"ids":                       {ToolCalls: []provider.ToolCall{{Index: 1, ID: "1234"}}},
		"extras":                    {ToolCalls: []provider.ToolCall{{Index: 1, Extra: []byte("{}")}}},
		"thinking":                  {Reasoning: "so", Native: []byte("{}")},
	} {
		g := tools.newCheck(nil)
		g.calls[0] = &checkedCall{name: "deploy", state: compared}
		g.shut = 1
		events := 0
		var err error
		for ; err == nil && events < maxWithheld/64; events++ {
			_, err = g.pass(t.Context(), event)
		}
		if err == nil {
			t.Errorf("%s: %d events are held, want an end before", name, events)
		}
	}
	g := tools.newCheck(nil)
	for range 10 * maxWithheld / 1024 { // A call that may pass is not kept.
		if _, err := g.pass(t.Context(), provider.Event{ToolCalls: []provider.ToolCall{{Name: "look", Arguments: strings.Repeat("x", 1024)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if g.size != 0 || g.calls[0].arguments != nil {
		t.Errorf("%d bytes and %d of arguments are kept of what went out", g.size, len(g.calls[0].arguments))
	}
}

// A stream whose calls exceed their bounds fails, whatever their indexes are.
func TestCallsOfAStreamAreBounded(t *testing.T) {
	many := func(n int, one func(i int) provider.ToolCall) []step {
		steps := []step{text("a")}
		for i := range n {
			steps = append(steps, step{event: provider.Event{ToolCalls: []provider.ToolCall{one(i)}}})
		}
		return append(steps, end(used))
	}
	for name, test := range map[string]struct {
		steps []step
		says  string
	}{
		"as many as there may be": {many(provider.MaxToolCalls, func(i int) provider.ToolCall { return provider.ToolCall{Index: i} }), ""},
		"one more":                {many(provider.MaxToolCalls+1, func(i int) provider.ToolCall { return provider.ToolCall{Index: i} }), "more than 512 tool calls"},
		"far apart":               {many(600, func(i int) provider.ToolCall { return provider.ToolCall{Index: i * 1e9} }), "more than 512 tool calls"},
		"below zero":              {many(600, func(i int) provider.ToolCall { return provider.ToolCall{Index: -i - 1} }), "more than 512 tool calls"},
		"a long call":             {many(5, func(int) provider.ToolCall { return provider.ToolCall{Arguments: strings.Repeat("x", 1<<20)} }), "larger than 4 MiB"},
		"a long name":             {many(5, func(int) provider.ToolCall { return provider.ToolCall{Name: strings.Repeat("x", 300)} }), "longer than 1024 bytes"},
		"together": {many(20, func(i int) provider.ToolCall {
			return provider.ToolCall{Index: i, Arguments: strings.Repeat("x", 1<<20)}
		}), "larger than 16 MiB"},
	} {
		_, err := collect(t, setup(t, nil, &script{name: "a", steps: test.steps}), request())
		if test.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e := apierr.From(err); err == nil || e.ErrorClass() != apierr.ClassServerError || !strings.Contains(e.Text, test.says) {
			t.Errorf("%s: %v, want a server error with %q", name, err, test.says)
		}
	}
}

// A frame with many names is searched once.
func TestNamesAreProportional(t *testing.T) {
	tools := toolApprovals{needs: func(tool string) bool { return tool == "deploy" }, request: asking("")}
	providertest.Proportional(t, 1000, func(n int) func() {
		frame := []byte(strings.Repeat(`{"a":[`, 40) + strings.TrimSuffix(strings.Repeat(`{"name":"look"},`, n), ",") + strings.Repeat("]}", 40))
		return func() {
			if err := tools.approveNative(context.Background(), nil, nil, frame); err != nil {
				t.Fatal(err)
			}
		}
	})
	for frame, found := range map[string]bool{
		strings.Repeat(`{"a":[`, 90) + `{"name":"deploy"}` + strings.Repeat("]}", 90): true,
		`{"n\u0061me":"deploy"}`:                                      true,
		`{"tool":{"name":"deploy","input":{"name":"x"}}}`:             true,
		`{"tool":{"name":"look","input":{"name":"deploy"}}}`:          false,
		`{"tool":{"name":"look","arguments":[{"name":"deploy"}]}}`:    false,
		`["name","deploy"]`:                                           false,
		`{"x":"name","y":"deploy","name":{"name":["deploy","name"]}}`: false,
		`{"name":{"name":"deploy"}}`:                                  true,
	} {
		if err := tools.approveNative(t.Context(), nil, nil, []byte(frame)); (err != nil) != found {
			t.Errorf("%.60s: %v", frame, err)
		}
	}
}
