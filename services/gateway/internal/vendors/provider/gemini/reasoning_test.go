package gemini

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestReasoning(t *testing.T) {
	for _, c := range []struct {
		model string
		asked *provider.Reasoning
		want  string
	}{
		{"gemini-2.5-pro", nil, "null"},
		{"gemini-2.5-pro", &provider.Reasoning{Required: true}, "null"},
		{"gemini-2.5-flash", &provider.Reasoning{Effort: "none"}, `{"thinkingBudget":0}`},
		{"gemini-2.5-pro", &provider.Reasoning{Effort: "none"}, `{"thinkingBudget":128}`},
		{"models/gemini-2.5-flash", &provider.Reasoning{Effort: "high", Summary: "auto"}, `{"thinkingBudget":16384,"includeThoughts":true}`},
		{"gemini-2.5-flash", &provider.Reasoning{BudgetTokens: 1 << 20}, `{"thinkingBudget":24576}`},
		{"gemini-3-flash", &provider.Reasoning{Effort: "xhigh"}, `{"thinkingLevel":"HIGH"}`},
		{"gemini-3-flash", &provider.Reasoning{Effort: "none"}, `{"thinkingLevel":"MINIMAL"}`},
		{"gemini-3-pro-preview", &provider.Reasoning{Effort: "medium"}, `{"thinkingLevel":"LOW"}`},
		{"gemini-3.1-pro", &provider.Reasoning{Effort: "medium"}, `{"thinkingLevel":"MEDIUM"}`},
		{"gemini-3.1-pro", &provider.Reasoning{Effort: "minimal"}, `{"thinkingLevel":"LOW"}`},
		{"gemini-2.5-flash-lite", &provider.Reasoning{BudgetTokens: 100}, `{"thinkingBudget":512}`},
		{"gemini-2.5-flash-lite", &provider.Reasoning{Effort: "none"}, `{"thinkingBudget":0}`},
		{"gemini-3-pro", &provider.Reasoning{Summary: "detailed"}, `{"includeThoughts":true}`},
	} {
		got, err := json.Marshal(encodeReasoning(c.model, c.asked))
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %+v: %s, %v, want %s", c.model, c.asked, got, err, c.want)
		}
	}
	for model, want := range map[string]bool{
		"gemini-2.5-pro": true, "models/gemini-3-flash": true, "gemini-3-pro-image-preview": true,
		"gemini-2.5-flash-image": false, "gemini-2.5-flash-image-preview": false, "gemini-2.0-flash": false, "gemini-1.5-pro": false, "gemma-3": false,
	} {
		if reasons(model) != want {
			t.Errorf("%s reasons: %t, want %t", model, !want, want)
		}
	}
}

// A body in the caller's own form asks for thinking as the model accepts it.
func TestRelayedThinking(t *testing.T) {
	for _, c := range []struct{ model, given, want string }{
		{"gemini-2.5-pro", `{"thinkingBudget":1024}`, `{"thinkingBudget":1024}`},
		{"gemini-2.5-pro", `{"thinkingBudget":0}`, `{"thinkingBudget":128}`},
		{"gemini-2.5-pro", `{"thinkingBudget":-1}`, `{"thinkingBudget":-1}`},
		{"gemini-2.5-flash", `{"thinkingBudget":0}`, `{"thinkingBudget":0}`},
		{"gemini-2.5-flash", `{"thinkingBudget":1e9,"includeThoughts":true}`, `{"thinkingBudget":24576,"includeThoughts":true}`},
		{"gemini-2.5-flash-lite", `{"thinkingBudget":64}`, `{"thinkingBudget":512}`},
		{"gemini-2.5-flash", `{"thinkingLevel":"LOW"}`, `{"thinkingBudget":4096}`},
		{"gemini-2.5-flash", `{"thinkingLevel":"HIGH","thinkingBudget":null}`, `{"thinkingBudget":16384}`},
		{"gemini-2.5-flash", `{"thinkingLevel":null,"thinking_level":"HIGH"}`, `{"thinkingBudget":16384,"thinkingLevel":null}`},
		{"gemini-2.5-flash", `{"thinking_budget":99999}`, `{"thinking_budget":24576}`},
		{"gemini-2.5-flash", `{"thinkingBudget":"x"}`, `{"thinkingBudget":"x"}`},
		{"gemini-3-flash", `{"thinkingLevel":"MINIMAL"}`, `{"thinkingLevel":"MINIMAL"}`},
		{"gemini-3-flash", `{"thinkingBudget":1024}`, `{"thinkingBudget":1024}`},
		{"gemini-3-pro-preview", `{"thinkingLevel":"medium"}`, `{"thinkingLevel":"LOW"}`},
		{"gemini-3.1-pro-preview", `{"thinkingLevel":"medium"}`, `{"thinkingLevel":"medium"}`},
		{"gemini-3.1-pro-preview", `{"thinking_level":"MINIMAL"}`, `{"thinking_level":"LOW"}`},
		{"gemini-3-flash", `{"thinkingLevel":"UTMOST"}`, `{"thinkingLevel":"UTMOST"}`},
		{"gemini-3-flash", `{"includeThoughts":true}`, `{"includeThoughts":true}`},
		{"a-tuned-model", `{"thinkingBudget":1}`, `{"thinkingBudget":1}`},
		{"gemini-3-flash", `7`, `7`},
	} {
		for _, form := range []string{`{"generationConfig":{"thinkingConfig":%,"seed":1},"contents":[]}`, `{"contents":[],"generation_config":{"thinking_config":%}}`} {
			chat := &provider.Chat{Model: c.model, Native: &provider.Native{Dialect: DialectName, Body: []byte(strings.Replace(form, "%", c.given, 1))}}
			got, err := relay(chat)
			if want := strings.Replace(form, "%", c.want, 1); err != nil || string(got) != want {
				t.Errorf("%s: %s, %v, want %s", c.model, got, err, want)
			}
		}
	}
}
