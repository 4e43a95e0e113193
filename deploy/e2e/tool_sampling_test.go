//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// The policy has the gateway answer this server, by a model with a price.
const (
	samplingServer = "sampler"
	sampledTools   = "sampling: [{servers: [" + samplingServer + "], by: gateway, model: guarded-model, max_tokens: 1000, max_requests: 2}]"
)

// toolsAskModels checks that tools that ask for completions get them from the gateway, as chats of the caller's run: they
// are billed beside the call, and end where the run's ceiling or the policy's number does. Servers of sessions get a
// refusal; the call of another server ends.
func (h *harness) toolsAskModels(t *testing.T) {
	for form, want := range map[string]struct {
		tooMany, beyond string
		calls           int // rows of calls of the tool: one for each round
	}{
		"legacy": {`the model was refused: {"code":-1,"message":"the completion was refused"}`, `the model was refused: {"code":-1,"message":"the completion was refused"}`, 2},
		"modern": {"sampling_refused", "run_exhausted", 3},
	} {
		t.Run(form, func(t *testing.T) {
			s := h.newSamplingServer(t, "/"+form)
			run := s.mint(t, 100)
			if got := s.ask(t, run, object{"text": "Where is Paris?"}); !strings.HasSuffix(got, "(guarded-model, endTurn)") {
				t.Errorf("the model's answer: %s", got)
			}
			if got := s.ask(t, run, object{"text": "Where is Paris?", "steps": 3}); got != want.tooMany {
				t.Errorf("a third question: %s", got)
			}
			rows := slices.Repeat([]string{"chat guarded/guarded-model"}, 3)
			s.ran(t, run, append(rows, slices.Repeat([]string{"tool mcp/sampler/ask_model"}, want.calls)...))

			// The call takes 1.5 of 2 cents. What is left is less than 1000 tokens may cost, and more than 100.
			run = s.mint(t, 2)
			if got := s.ask(t, run, object{"text": "Where is Paris?", "size": 5000}); got != want.beyond {
				t.Errorf("a question beyond the ceiling of the run: %s", got)
			}
			s.ran(t, run, []string{"tool mcp/sampler/ask_model"})
		})
	}
}

// samplingTests are calls of the server that asks models, of one organization.
type samplingTests struct {
	*harness

	organization string
	service      client
}

func (h *harness) newSamplingServer(t *testing.T, path string) samplingTests {
	t.Helper()
	organization := unique("org")
	h.registerServer(t, organization, samplingServer, h.FakeURL(stack.FakeTools)+path, 1.5)
	return samplingTests{h, organization, h.service(stack.Gateway, organization).with("X-Switchyard-Tags", "team=red")}
}

// mint mints a run with a ceiling in cents.
func (s samplingTests) mint(t *testing.T, ceiling float64) string {
	t.Helper()
	run := unique("run")
	s.service.with("X-Run-Id", run).post(t, "/v1/runs/mint", object{"max_cost_cents": ceiling}).want(t, http.StatusCreated)
	return run
}

// ask calls the tool, and returns what it says, or the reason of an error.
func (s samplingTests) ask(t *testing.T, run string, arguments object) string {
	t.Helper()
	result, failure := s.service.with("X-Run-Id", run).rpc(t, "/mcp/"+samplingServer, "tools/call", object{"name": "ask_model", "arguments": arguments})
	if failure.Exists() {
		return failure.Get("data.reason").Str
	}
	return result.Get("content.0.text").Str
}

// registerServer registers a server of tools, trusts it, and approves its definitions.
func (h *harness) registerServer(t *testing.T, organization, id, url string, price float64, features ...string) {
	t.Helper()
	service := h.service(stack.Gateway, organization)
	service.post(t, serversPath, object{"server_id": id, "url": url, "price_per_call_cents": price, "registered_by": "ada", "features": append([]string{"tools"}, features...)}).want(t, http.StatusCreated)
	service.post(t, trustPath, object{"server_id": id, "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	var state struct {
		Listing string `json:"listing_digest"`
	}
	waitFor(t, waitTimeout, "the tools of the server", func() error {
		service.get(t, serversPath+"/"+id).into(t, http.StatusOK, &state)
		if state.Listing == "" {
			return fmt.Errorf("%s is not listed", id)
		}
		return nil
	})
	service.post(t, serversPath+"/"+id+"/review", object{"listing_digest": state.Listing, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)
}

// ran waits until the ledger has the rows of a run: operation, provider and model, sorted.
func (s samplingTests) ran(t *testing.T, run string, want []string) {
	t.Helper()
	waitFor(t, waitTimeout, "the rows of the run", func() error {
		var page struct {
			Records []struct {
				Operation string            `json:"operation"`
				Provider  string            `json:"provider"`
				Model     string            `json:"model"`
				RunID     string            `json:"run_id"`
				Tags      map[string]string `json:"tags"`
				Cost      float64           `json:"cost_cents"`
			} `json:"records"`
		}
		s.operator(stack.Gateway).get(t, "/v1/usage?limit=200&organization_id="+s.organization).into(t, http.StatusOK, &page)
		var got []string
		for _, r := range page.Records {
			if r.Tags["team"] != "red" || r.Cost <= 0 && r.Operation == "chat" {
				return fmt.Errorf("a row %+v", r)
			}
			if r.RunID == run {
				got = append(got, r.Operation+" "+r.Provider+"/"+r.Model)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("rows %v, want %v", got, want)
		}
		return nil
	})
}
