package openai_test

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// Each server is told in its own parameters how much to think.
func TestReasoningParameters(t *testing.T) {
	high, none, budget := &provider.Reasoning{Effort: "high"}, &provider.Reasoning{Effort: "none"}, &provider.Reasoning{BudgetTokens: 5000}
	for name, c := range map[string]struct {
		config provider.Settings
		model  string
		asked  *provider.Reasoning
		want   string
	}{
		"nothing asked":        {vendor, "gpt-5", nil, `{"model":"gpt-5","messages":[]}`},
		"only a summary":       {vendor, "gpt-5", &provider.Reasoning{Summary: "auto"}, `{"model":"gpt-5","messages":[]}`},
		"OpenAI":               {vendor, "gpt-5", high, `"reasoning_effort":"high"}`},
		"OpenAI by budget":     {vendor, "o3", budget, `"reasoning_effort":"low"}`},
		"o-series without":     {vendor, "o3", none, `"reasoning_effort":"low"}`},
		"gpt-5 without":        {vendor, "gpt-5", none, `"reasoning_effort":"minimal"}`},
		"gpt-5.1 without":      {vendor, "gpt-5.1", none, `"reasoning_effort":"none"}`},
		"gpt-5.1 with most":    {vendor, "gpt-5.1", &provider.Reasoning{Effort: "max"}, `"reasoning_effort":"high"}`},
		"gpt-6 with most":      {vendor, "gpt-6", &provider.Reasoning{Effort: "max"}, `"reasoning_effort":"max"}`},
		"a compatible server":  {anyServer, "openai/gpt-oss-120b", &provider.Reasoning{Effort: "minimal"}, `"reasoning_effort":"low"}`},
		"DeepSeek":             {provider.Settings{BaseURL: "https://api.deepseek.com"}, "deepseek-v4", high, `"thinking":{"type":"enabled"}}`},
		"DeepSeek without":     {provider.Settings{BaseURL: "https://api.deepseek.com"}, "deepseek-v4", none, `"thinking":{"type":"disabled"}}`},
		"Qwen's service":       {provider.Settings{BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1"}, "qwen3-max", budget, `"enable_thinking":true,"thinking_budget":5000}`},
		"Qwen's without":       {provider.Settings{BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1"}, "qwen3-max", none, `"enable_thinking":false}`},
		"OpenRouter":           {provider.Settings{BaseURL: "https://openrouter.ai/api/v1"}, "x/y", high, `"reasoning":{"effort":"high"}}`},
		"OpenRouter by budget": {provider.Settings{BaseURL: "https://openrouter.ai/api/v1"}, "x/y", budget, `"reasoning":{"max_tokens":5000}}`},
		"vLLM with Qwen":       {provider.Settings{BaseURL: "http://127.0.0.1:8000", ReasoningStyle: "chat_template"}, "Qwen/Qwen3-8B", high, `"chat_template_kwargs":{"enable_thinking":true}}`},
		"vLLM with DeepSeek":   {provider.Settings{BaseURL: "http://127.0.0.1:8000", ReasoningStyle: "chat_template"}, "deepseek-ai/DeepSeek-V3.1", none, `"chat_template_kwargs":{"thinking":false}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := sending(t, c.config, &provider.Chat{Model: c.model, Reasoning: c.asked}, false)
			if !strings.HasSuffix(got, c.want) {
				t.Errorf("sent %s, want %s", got, c.want)
			}
		})
	}
	if _, err := openai.New(provider.Settings{BaseURL: "http://x", ReasoningStyle: "hard"}); err == nil || !strings.Contains(err.Error(), "reasoning_style") {
		t.Errorf("a style that is none: %v", err)
	}
}

// An effort in a caller's body becomes the nearest that the model takes, over both APIs and in batch jobs. Servers of
// others decide for themselves.
func TestRelayedEfforts(t *testing.T) {
	for _, c := range []struct {
		config              provider.Settings
		model, effort, want string
	}{
		{vendor, "o3", "minimal", "low"},
		{vendor, "o4-mini", "xhigh", "high"},
		{vendor, "gpt-5", "minimal", "minimal"},
		{vendor, "gpt-5-mini", "none", "minimal"},
		{vendor, "gpt-5-codex", "minimal", "low"},
		{vendor, "gpt-5-pro", "low", "high"},
		{vendor, "gpt-5.1", "minimal", "none"},
		{vendor, "gpt-5.1", "xhigh", "high"},
		{vendor, "gpt-5.1-codex", "none", "low"},
		{vendor, "gpt-5.1-codex-max", "xhigh", "xhigh"},
		{vendor, "gpt-5.2", "max", "xhigh"},
		{vendor, "gpt-5.2-pro", "low", "medium"},
		{vendor, "gpt-5.3-codex", "none", "low"},
		{vendor, "gpt-5.6-terra", "max", "max"},
		{vendor, "gpt-6", "minimal", "none"},
		{vendor, "gpt-5", "utmost", "utmost"},
		{vendor, "gpt-5-prod", "minimal", "minimal"},
		{vendor, "gpt-5.1-mini-production", "low", "low"},
		{vendor, "gpt-5-pro-2025-10-06", "low", "high"},
		{vendor, "gpt-4o", "xhigh", "xhigh"}, // It is not relayed; see Terms.
		{anyServer, "openai/gpt-oss-120b", "minimal", "minimal"},
		{provider.Settings{BaseURL: "https://openrouter.ai/api/v1"}, "openai/o1", "xhigh", "xhigh"},
	} {
		for dialect, body := range map[string]string{
			openai.DialectName: `"messages":[],"reasoning_effort":%`, openai.ResponsesName: `"input":"x","reasoning":{"effort":%,"summary":"auto"}`,
		} {
			given := strings.Replace(body, "%", `"`+c.effort+`"`, 1)
			want := strings.Replace(body, "%", `"`+c.want+`"`, 1)
			got, _ := sending(t, c.config, &provider.Chat{Model: c.model, Native: &provider.Native{Dialect: dialect, Body: []byte("{" + given + "}")}}, false)
			if served := dialect == openai.DialectName || c.config.BaseURL == vendor.BaseURL; served && !strings.Contains(got, want) {
				t.Errorf("%s at %s: sent %s, want %s", c.model, c.config.BaseURL, got, want)
			}
		}
	}
}

func TestWhoReasons(t *testing.T) {
	for model, want := range map[string]bool{
		"o1": true, "o3-mini": true, "o4-mini-2025": true, "gpt-5": true, "gpt-5.2-codex": true, "gpt-10": true, "openai/gpt-oss-20b": true,
		"ft:o4-mini-2025-04-16:org::id": true, "openai/ft:o4-mini-2025-04-16:org::id": true, "ft:gpt-4o-2024-08-06:org::id": false,
		"gpt-5-chat-latest": false, "openai/gpt-5-chat": false, "gpt-4o-search-preview": false,
		"deepseek-reasoner": true, "deepseek-ai/DeepSeek-V3.1": true, "Qwen/Qwen3-8B": true, "glm-4.6": true, "grok-4": true,
		"gpt-4o": false, "gpt-4.1": false, "gpt-3.5-turbo": false, "o": false, "omni": false, "deepseek-chat": false, "llama-3": false, "": false,
	} {
		if got := openai.Dialect().Reasons(model); got != want {
			t.Errorf("%s reasons: %t, want %t", model, got, want)
		}
	}
}
