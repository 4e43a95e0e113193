package gemini

import (
	"encoding/json"
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
		{"gemini-3.1-pro", &provider.Reasoning{Effort: "medium"}, `{"thinkingLevel":"LOW"}`},
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
