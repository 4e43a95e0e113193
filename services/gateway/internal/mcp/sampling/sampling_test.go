package sampling

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// engine is an Engine with a given answer, and keeps what it was asked.
type engine struct {
	models  []provider.Target
	refused map[string]bool // models that Check refuses
	checked []string
	asked   []*inference.Request
	answer  inference.Completion
	err     error
}

func (e *engine) Models() []provider.Target { return e.models }

func (e *engine) Check(_ context.Context, r *inference.Request) error {
	e.checked = append(e.checked, r.Route.Model)
	if e.refused[r.Route.Model] {
		return errors.New("refused")
	}
	return nil
}

func (e *engine) Chat(_ context.Context, r *inference.Request) (*inference.Completion, error) {
	e.asked = append(e.asked, r)
	return &e.answer, e.err
}

func asker() *toolcall.Asker {
	return &toolcall.Asker{
		RequestID: "r1-sampling-1", Organization: "acme", Key: "k1", Service: "edge", Run: "run-1", User: "ann",
		KeyTerms: keyterm.Terms{Key: "k1", Models: []string{"m"}}, Tags: map[string]string{"team": "a"},
	}
}

var byGateway = toolrule.Sampling{By: toolrule.SamplingByGateway, MaxTokens: 50, MaxRequests: 4}

func sample(t *testing.T, e *engine, terms toolrule.Sampling, params string) string {
	t.Helper()
	got, err := New(e).Sample(t.Context(), asker(), "files", terms, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// A completion is one of the same organization, run, key, user and tags as the call, and is not cached.
func TestSampleAsksForTheCaller(t *testing.T) {
	e := &engine{answer: inference.Completion{Text: "hello", FinishReason: provider.FinishStop, Route: inference.Route{Provider: "p", Model: "m-1"}}}
	got := sample(t, e, byGateway, `{`+hello+`,"systemPrompt":"s"}`)
	if want := `{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m-1","stopReason":"endTurn"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r, a := e.asked[0], asker()
	if r.ID != a.RequestID || r.Organization != a.Organization || r.Route.Organization != a.Organization || r.Key != a.Key || r.Service != a.Service ||
		r.Run != a.Run || r.User != a.User || !cmp.Equal(r.KeyTerms, a.KeyTerms) || !cmp.Equal(r.Tags, a.Tags) {
		t.Errorf("%+v", r)
	}
	if !r.BypassCache || r.Route.Operation != provider.OperationChat || r.Route.Model != "default" || r.Probe || r.ByokProvider != "" {
		t.Errorf("%+v", r)
	}
	raw, err := r.Raw.Encode()
	if want := `{"server":"files","params":{"maxTokens":10,"messages":[{"content":{"text":"hi","type":"text"},"role":"user"}],"systemPrompt":"s"}}`; err != nil || r.Raw.Form != Form || string(raw) != want {
		t.Errorf("kept as %s, %v, want %s", raw, err, want)
	}
}

func TestSampleBoundsTokens(t *testing.T) {
	for _, c := range []struct {
		asked string
		most  int
		want  int
	}{{"10", 50, 10}, {"51", 50, 50}, {"9007199254740991", 50, 50}, {"100000", 0, 4096}, {"1e3", 5000, 1000}} {
		e := &engine{}
		terms := byGateway
		terms.MaxTokens = c.most
		sample(t, e, terms, strings.Replace(`{`+hello+`}`, `"maxTokens":10`, `"maxTokens":`+c.asked, 1))
		if got := e.asked[0].Chat.MaxTokens; got != c.want {
			t.Errorf("%s of at most %d: %d, want %d", c.asked, c.most, got, c.want)
		}
	}
}

func TestSampleChoosesTheModel(t *testing.T) {
	models := []provider.Target{{Provider: "a", Model: "big"}, {Provider: "a", Model: "small"}, {Provider: "b", Model: "small"}}
	for name, c := range map[string]struct {
		policy, preferences, model, goal string
		refused, checked                 []string
	}{
		"nothing":              {"", `{}`, "default", "", nil, nil},
		"priorities":           {"", `{"costPriority":1}`, "default", "cost", nil, nil},
		"a hint":               {"", `{"hints":[{"name":"small"}],"costPriority":1}`, "small", "", nil, []string{"small"}},
		"a hint with provider": {"", `{"hints":[{"name":"b/small"}]}`, "b/small", "", nil, []string{"b/small"}},
		"unknown hints":        {"", `{"hints":[{"name":"sonnet"},{"name":"c/small"},{"name":""},{"name":"big"}]}`, "big", "", nil, []string{"big"}},
		"a part of a name":     {"", `{"hints":[{"name":"sma"}],"speedPriority":1}`, "default", "latency", nil, nil},
		"may not be used":      {"", `{"hints":[{"name":"big"},{"name":"small"}]}`, "small", "", []string{"big"}, []string{"big", "small"}},
		"none may be used":     {"", `{"hints":[{"name":"big"}],"intelligencePriority":1}`, "default", "quality", []string{"big"}, []string{"big"}},
		"at most four": {
			"", `{"hints":[{"name":"big"},{"name":"big"},{"name":"big"},{"name":"big"},{"name":"small"}]}`, "default", "",
			[]string{"big"},
			[]string{"big", "big", "big", "big"},
		},
		"the policy's": {"fast", `{"hints":[{"name":"small"}],"costPriority":1}`, "fast", "", nil, nil},
	} {
		e := &engine{models: models, refused: map[string]bool{}}
		for _, model := range c.refused {
			e.refused[model] = true
		}
		terms := byGateway
		terms.Model = c.policy
		sample(t, e, terms, `{`+hello+`,"modelPreferences":`+c.preferences+`}`)
		if r := e.asked[0].Route; r.Model != c.model || string(r.Goal) != c.goal || !cmp.Equal(e.checked, c.checked) {
			t.Errorf("%s: %q, %q after %q, want %q, %q after %q", name, r.Model, r.Goal, e.checked, c.model, c.goal, c.checked)
		}
	}
}

func TestAnswers(t *testing.T) {
	calls := []provider.ToolCall{{ID: "c1", Name: "f", Arguments: ` {"b":1, "a":12345678901234567890}`}, {Index: 1, ID: "c2", Name: "g"}}
	for name, c := range map[string]inference.Completion{
		"text":           {Text: "a < b", FinishReason: provider.FinishStop},
		"cut":            {Text: "a", FinishReason: provider.FinishLength},
		"filtered":       {FinishReason: provider.FinishContentFilter},
		"calls":          {ToolCalls: calls, FinishReason: provider.FinishToolCalls},
		"text and calls": {Text: "let me see", Reasoning: "not shown", ToolCalls: calls[:1], FinishReason: provider.FinishToolCalls},
	} {
		c.Route.Model = "m-1"
		got := sample(t, &engine{answer: c}, byGateway, `{`+hello+`}`)
		golden(t, strings.ReplaceAll(name, " ", "_")+".answer.json", json.RawMessage(got))
	}
	for _, arguments := range []string{`[]`, `{`, `"x"`, `{"a":1,"a":2}`, "{\"\xff\":1}", `{} {}`} {
		e := &engine{answer: inference.Completion{ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: arguments}}}}
		_, err := New(e).Sample(t.Context(), asker(), "files", byGateway, json.RawMessage(`{`+hello+`}`))
		if refused, ok := errors.AsType[*apierr.Error](err); !ok || refused.Reason != inference.ReasonProviderFailed {
			t.Errorf("%q: %v", arguments, err)
		}
	}
}

// What is refused asks no model, and the pipeline's errors are passed on.
func TestSampleFails(t *testing.T) {
	e := &engine{err: apierr.New(apierr.KindForbidden, "budget_exceeded", "no budget")}
	if _, err := New(e).Sample(t.Context(), asker(), "files", byGateway, json.RawMessage(`{"maxTokens":1}`)); err == nil || len(e.asked) > 0 {
		t.Errorf("%v, asked %d times", err, len(e.asked))
	}
	if _, err := New(e).Sample(t.Context(), asker(), "files", byGateway, json.RawMessage(`{`+hello+`}`)); !errors.Is(err, e.err) {
		t.Error(err)
	}
}
