package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// A body asks for thinking in the form that its model accepts. What that form can't say is named.
func TestRelayedThinkingForms(t *testing.T) {
	const (
		budget   = `"thinking":{"type":"enabled","budget_tokens":20000}`
		adaptive = `"thinking":{"type":"adaptive","display":"summarized"}`
		disabled = `"thinking":{"type":"disabled"}`
	)
	effort := func(level string) string { return `"output_config":{"effort":"` + level + `"}` }
	for name, c := range map[string]struct {
		model, asked, want string
		lost               string // the fields that are named
	}{
		"a budget where budgets are known":      {"claude-sonnet-4-5", budget, budget, ""},
		"a budget that is discouraged":          {"claude-opus-4-6", budget, budget, ""},
		"a budget that is refused":              {"claude-opus-4-7", budget, `"thinking":{"type":"adaptive","display":"summarized"},` + effort("high"), ""},
		"a budget on another host":              {"us.anthropic.claude-opus-4-8-v1:0", budget, `"thinking":{"type":"adaptive","display":"summarized"},` + effort("high"), ""},
		"a small budget":                        {"claude-sonnet-5", `"thinking":{"type":"enabled","budget_tokens":1024}`, `"thinking":{"type":"adaptive","display":"summarized"},` + effort("low"), ""},
		"a budget with a display":               {"claude-opus-5", `"thinking":{"type":"enabled","budget_tokens":40000,"display":"omitted"}`, `"thinking":{"type":"adaptive","display":"omitted"},` + effort("xhigh"), ""},
		"a budget beside an effort":             {"claude-opus-4-7", budget + "," + effort("low"), `"thinking":{"type":"adaptive","display":"summarized"},` + effort("low"), ""},
		"a budget beside a format":              {"claude-opus-4-7", budget + `,"output_config":{"format":{"type":"json_schema"}}`, `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"format":{"type":"json_schema"},"effort":"high"}`, ""},
		"a budget with a model of its own name": {"claude-mythos-preview", budget, `"thinking":{"type":"adaptive","display":"summarized"},` + effort("high"), ""},

		"adaptive thinking":              {"claude-opus-4-6", adaptive, adaptive, ""},
		"adaptive thinking, effort":      {"claude-opus-4-7", adaptive + "," + effort("xhigh"), adaptive + "," + effort("xhigh"), ""},
		"adaptive thinking of old":       {"claude-haiku-4-5", adaptive, `"thinking":{"type":"enabled","display":"summarized","budget_tokens":8192}`, ""},
		"adaptive of old, effort":        {"claude-haiku-4-5@20251001", adaptive + "," + effort("low"), `"thinking":{"type":"enabled","display":"summarized","budget_tokens":4096}`, ""},
		"adaptive of old, little output": {"claude-sonnet-4-5", `"max_tokens":3000,` + adaptive, `"max_tokens":3000,"thinking":{"type":"enabled","display":"summarized","budget_tokens":1500}`, ""},
		"adaptive of old, too little":    {"claude-sonnet-4-5", `"max_tokens":1000,` + adaptive, `"max_tokens":1000,` + disabled, "thinking"},
		"adaptive of Opus 4.5, effort":   {"claude-opus-4-5", adaptive + "," + effort("max"), `"thinking":{"type":"enabled","display":"summarized","budget_tokens":32000},` + effort("high"), ""},

		"an effort":                        {"claude-sonnet-4-6", effort("low"), effort("low"), ""},
		"an effort of a newer model":       {"claude-opus-4-6", effort("xhigh"), effort("high"), ""},
		"an effort that is no level":       {"claude-haiku-4-5", effort("utmost"), effort("utmost"), ""},
		"an effort that is refused":        {"claude-haiku-4-5", effort("low"), ``, "output_config.effort"},
		"an effort beside a budget":        {"claude-sonnet-4-5", budget + "," + effort("low"), budget, "output_config.effort"},
		"an effort beside a format":        {"claude-haiku-4-5", `"output_config":{"effort":"low","format":{}}`, `"output_config":{"format":{}}`, "output_config.effort"},
		"an effort, thinking is off":       {"claude-opus-5", disabled + "," + effort("max"), disabled + "," + effort("high"), ""},
		"an effort of a model that is new": {"claude-haiku-6", effort("max"), effort("max"), ""},

		"a temperature":                 {"claude-haiku-4-5", `"temperature":0.5,` + adaptive, `"temperature":0.5,` + disabled, "thinking"},
		"a demanded call":               {"claude-haiku-4-5", `"tool_choice":{"type":"any"},` + adaptive, `"tool_choice":{"type":"any"},` + disabled, "thinking"},
		"a temperature to be removed":   {"claude-opus-4-7", `"temperature":0.5,` + adaptive, `"temperature":0.5,` + adaptive, ""},
		"a deployment's own name":       {"claude-prod", budget + "," + effort("max"), budget + "," + effort("max"), ""},
		"only an effort, with spaces":   {"claude-haiku-4-5", `"output_config": { "effort":"low" }`, ``, "output_config.effort"},
		"thinking is off":               {"claude-sonnet-4-5", disabled, disabled, ""},
		"off is the default":            {"claude-opus-4-7", disabled, ``, ""},
		"off is refused":                {"claude-fable-5", disabled, ``, "thinking"},
		"excluded":                      {"claude-sonnet-4-5", `"max_tokens":1000,` + budget, `"max_tokens":1000,` + disabled, "thinking"},
		"nothing said":                  {"claude-opus-4-7", `"max_tokens":9`, `"max_tokens":9`, ""},
		"another vendor's model":        {"minimax-m3", budget + "," + effort("low"), budget + "," + effort("low"), ""},
		"values of the wrong kind":      {"claude-opus-4-7", `"thinking":"on","output_config":7`, `"thinking":"on","output_config":7`, ""},
		"a budget of the wrong kind":    {"claude-opus-4-7", `"thinking":{"type":"enabled","budget_tokens":"x"}`, `"thinking":{"type":"adaptive","display":"summarized"}`, ""},
		"an effort of the wrong kind":   {"claude-haiku-4-5", `"output_config":{"effort":["low"]}`, `"output_config":{"effort":["low"]}`, ""},
		"an effort in a list":           {"claude-haiku-4-5", `"output_config":["effort"]`, `"output_config":["effort"]`, ""},
		"a model that does not think":   {"claude-3-haiku-20240307", effort("low"), ``, "output_config.effort"},
		"adaptive, doesn't think":       {"claude-3-haiku-20240307", adaptive, adaptive, ""}, // It is not relayed; see Terms.
		"a budget as large as a number": {"claude-opus-4-7", `"thinking":{"type":"enabled","budget_tokens":1e300}`, `"thinking":{"type":"adaptive","display":"summarized"},` + effort("max"), ""},
	} {
		body := []byte("{" + c.asked + "}")
		chat := membersOf(wire.ParseView(body)).chat(c.model, gjson.Result{})
		chat.Native = &provider.Native{Dialect: DialectName, Body: body}
		sent, err := Relay(chat)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(decoded(t, "{"+c.want+"}"), decoded(t, string(sent))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if lost := strings.Join(Omitted(chat), ", "); lost != c.lost {
			t.Errorf("%s: %q is named, want %q", name, lost, c.lost)
		}
		job := decoded(t, string(params(c.model, chat.Native.Body)))
		if diff := cmp.Diff(decoded(t, "{"+c.want+"}"), job); diff != "" {
			t.Errorf("%s, in a batch job (-want +got):\n%s", name, diff)
		}
	}
}

// decoded returns the value of a JSON text.
func decoded(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}
