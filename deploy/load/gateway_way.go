package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/plain"
	"switchyard.dev/deploy/load/client"
	"switchyard.dev/deploy/load/proc"
)

// target is one way to the provider.
type target struct {
	// flag is the way's name in -ways, empty for the provider itself and the floors.
	flag, name string
	chat       *client.Request
	// stream requests a paced streamed answer, burst a streamed answer without pauses.
	stream, burst *client.Request
	// pids are the one or two processes on the way whose processor time counts; provider and client are left out.
	pids []int
	// idle is what the processes of the way spend in a second without calls.
	idle cost
	// behind is the part of the stack that works behind the calls; its zero value is for ways without a stack.
	behind
}

// behind is the part of a stack that works behind the calls.
type behind struct {
	// stores returns the processes of Postgres; it is nil without a stack.
	stores func() []int
	// control is the process of the edge's control, 0 without a stack.
	control int
	// database is the administrator's URL of the stack's database.
	database string
	// exports reads how far the stack's exports of usage are; it is nil without exports.
	exports *exportReader
}

// question is the text of the requests of all APIs, whose bodies have about the same size.
var question = strings.Repeat("How long is the train to the coast, and how many carriages does it have? ", 10)

func openAIBody(model string, stream bool) []byte {
	const form = `{"model":"%s","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}],` +
		`"max_tokens":500,"stream":%t}`
	return fmt.Appendf(nil, form, model, question, stream)
}

func anthropicBody(model string, stream bool) []byte {
	const form = `{"model":"%s","system":"Be brief.","messages":[{"role":"user","content":%q}],` +
		`"max_tokens":500,"stream":%t}`
	return fmt.Appendf(nil, form, model, question, stream)
}

func responsesBody(model string, stream bool) []byte {
	const form = `{"model":"%s","instructions":"Be brief.","input":%q,"max_output_tokens":500,` +
		`"store":false,"stream":%t}`
	return fmt.Appendf(nil, form, model, question, stream)
}

func contractBody(model string, stream bool) []byte { return openAIBody("load/"+model, stream) }

// way is a target before its requests are prepared.
type way struct {
	flag, name, url string
	header          http.Header
	body            func(model string, stream bool) []byte
	pids            []int
	behind          behind
}

const completions = "/v1/chat/completions"

// targets returns the ways to measure; the first is the provider itself, the next two are the floors.
func (r *gatewayRig) targets(ctx context.Context, plan gatewayPlan) ([]target, error) {
	relay, front := r.relay.PID(), r.front.PID()
	ways := []way{
		{"", "provider itself", r.vendor.url + completions, nil, openAIBody, nil, behind{}},
		{"", "thin relay (floor)", r.relay.url + completions, nil, openAIBody, []int{relay}, behind{}},
		{"", "two relays in a row (floor)", r.front.url + completions, nil, openAIBody, []int{front, relay}, behind{}},
	}
	for _, mode := range modes {
		if r.stacks[mode] == nil {
			continue
		}
		more, err := stackWays(ctx, plan, r.stacks[mode], mode)
		if err != nil {
			return nil, err
		}
		ways = append(ways, more...)
	}
	ways = slices.DeleteFunc(ways, func(w way) bool { return w.flag != "" && !plan.wants(w.flag) })
	return prepare(ways)
}

// stackWays returns the ways through a stack whose ledger has the mode.
func stackWays(ctx context.Context, plan gatewayPlan, s *stack.Stack, mode string) ([]way, error) {
	key, err := s.CreateKey(ctx, stack.Key{
		Organization: stack.Organization, Product: "ai", Permission: "read", Name: "load",
	})
	if err != nil {
		return nil, err
	}
	if plan.limited {
		if err := limitOrganization(ctx, s, key); err != nil {
			return nil, fmt.Errorf("put the organization on a plan: %w", err)
		}
	}
	var pids [4]int
	for i, name := range []string{string(stack.Gateway), string(stack.Edge), string(stack.Control), stack.Postgres} {
		if pids[i], err = s.PID(name); err != nil {
			return nil, err
		}
	}
	gateway, edge, server := pids[0], pids[1], pids[3]
	rest := behind{control: pids[2], database: s.DatabaseURL()}
	rest.stores = func() []int { return append(proc.Children(server), server) }
	if plan.exports {
		rest.exports = &exportReader{s}
	}
	service, customer := firstParty(s), bearer(key)
	at, front := s.URL(string(stack.Gateway)), s.URL(string(stack.Edge))+"/product/v1/ai/openai"+completions
	ways := []way{
		{mode, "gateway, OpenAI face, " + mode, at + completions, service, openAIBody, []int{gateway}, rest},
		{"edge-" + mode, "edge + OpenAI face, " + mode, front, customer, openAIBody, []int{edge, gateway}, rest},
	}
	if mode != "async" {
		return ways, nil
	}
	alone := []int{gateway}
	return append([]way{
		{"contract", "gateway, contract, async", at + "/v1/llm/chat", service, contractBody, alone, rest},
		{"translated", "gateway, Anthropic face, async", at + "/v1/messages", service, anthropicBody, alone, rest},
		{"responses", "gateway, Responses face, async", at + "/v1/responses", service, responsesBody, alone, rest},
	}, ways...), nil
}

func prepare(ways []way) ([]target, error) {
	all := make([]target, 0, len(ways))
	for _, w := range ways {
		t := target{flag: w.flag, name: w.name, pids: w.pids, behind: w.behind}
		var errs [3]error
		t.chat, errs[0] = client.NewRequest(w.url, w.header, w.body("load", false))
		t.stream, errs[1] = client.NewRequest(w.url, w.header, w.body("load", true))
		t.burst, errs[2] = client.NewRequest(w.url, w.header, w.body(plain.Burst, true))
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// wantText returns a check that a whole stream holds the text, piece by piece.
func wantText(pieces int) func(client.Answer) error {
	want := strings.Count(plain.Text(pieces), "carriage ")
	ends := [][]byte{[]byte("[DONE]"), []byte("message_stop"), []byte("response.completed")}
	return func(a client.Answer) error {
		got := strings.Count(string(a.Body), `"carriage "`)
		ended := slices.ContainsFunc(ends, func(end []byte) bool { return bytes.Contains(a.Body, end) })
		if a.Status != http.StatusOK || got != want || !ended {
			return fmt.Errorf("status %d, %d of %d pieces", a.Status, got, want)
		}
		return nil
	}
}
