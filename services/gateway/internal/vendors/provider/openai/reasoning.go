package openai

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// ReasoningStyle is how a server is told how much to think.
type ReasoningStyle string

// The styles. Sources: the API references of OpenAI, DeepSeek, Alibaba Cloud Model Studio and OpenRouter, and vLLM's
// documentation, "Reasoning Outputs".
const (
	// ReasoningEffort is reasoning_effort, of OpenAI and most compatible servers.
	ReasoningEffort ReasoningStyle = "effort"
	// ReasoningThinking is thinking: {type}, of DeepSeek, Z.ai and Moonshot.
	ReasoningThinking ReasoningStyle = "thinking"
	// ReasoningEnable is enable_thinking with thinking_budget, of Qwen's own service.
	ReasoningEnable ReasoningStyle = "enable_thinking"
	// ReasoningTemplate is chat_template_kwargs, of vLLM and SGLang.
	ReasoningTemplate ReasoningStyle = "chat_template"
	// ReasoningNested is reasoning: {effort, max_tokens}, of OpenRouter.
	ReasoningNested ReasoningStyle = "nested"
)

var styles = []ReasoningStyle{ReasoningEffort, ReasoningThinking, ReasoningEnable, ReasoningTemplate, ReasoningNested}

// checkStyle returns an error for a style that is none of these; empty is the known one of the host.
func checkStyle(style string) error {
	if style == "" {
		return nil
	}
	for _, known := range styles {
		if string(known) == style {
			return nil
		}
	}
	return fmt.Errorf("reasoning_style: %q: want one of %v", style, styles)
}

// hostStyles are the styles of known hosts, by the ends of their names; others take the effort.
var hostStyles = []struct {
	suffix string
	style  ReasoningStyle
}{
	{"api.deepseek.com", ReasoningThinking},
	{"api.z.ai", ReasoningThinking},
	{"open.bigmodel.cn", ReasoningThinking},
	{"api.moonshot.ai", ReasoningThinking},
	{"api.moonshot.cn", ReasoningThinking},
	{"openrouter.ai", ReasoningNested},
	{"dashscope.aliyuncs.com", ReasoningEnable},
	{"dashscope-intl.aliyuncs.com", ReasoningEnable},
}

func styleOf(base *url.URL, configured string) ReasoningStyle {
	if configured != "" {
		return ReasoningStyle(configured)
	}
	for _, known := range hostStyles {
		if base.Hostname() == known.suffix {
			return known.style
		}
	}
	return ReasoningEffort
}

// reasoners matches the names of models that are known to reason.
var reasoners = regexp.MustCompile(`^(o[1-9](\b|-)|gpt-([5-9]|[1-9]\d)|gpt-oss|codex-|deepseek-(reasoner|r\d|v3\.[1-9]|v[4-9])|qwq|qwen-?3|grok-(3-mini|[4-9])|magistral|glm-(4\.[5-9]|[5-9])|kimi-k2-thinking|minimax-m)`)

// reasons reports whether a model is known to reason.
func reasons(model string) bool {
	name := bareName(model)
	return reasoners.MatchString(name) && !isGPT5Chat(name)
}

// isGPT5Chat reports whether a bare name names a gpt-5-chat model. These models don't reason.
func isGPT5Chat(name string) bool { return strings.HasPrefix(name, "gpt-5-chat") }

// oSeries matches the bare names of OpenAI's reasoning models before GPT-5.
var oSeries = regexp.MustCompile(`^o[1-9](-|$)`)

// bareName returns a model's name in lower case, without the path that a router puts before it. A fine-tuned model has
// the name of its base model, followed by a colon: "o4-mini-2025-04-16:org::id".
func bareName(model string) string {
	return strings.TrimPrefix(strings.ToLower(model[strings.LastIndexByte(model, '/')+1:]), "ft:")
}

// reasoning are the parameters that say how much to think; each server takes some of them.
type reasoning struct {
	Effort         provider.Effort `json:"reasoning_effort,omitempty"`
	Thinking       *switchable     `json:"thinking,omitempty"`
	EnableThinking *bool           `json:"enable_thinking,omitempty"`
	ThinkingBudget int             `json:"thinking_budget,omitempty"`
	Template       map[string]bool `json:"chat_template_kwargs,omitempty"`
	Nested         *nested         `json:"reasoning,omitempty"`
}

type switchable struct {
	Type string `json:"type"`
}

type nested struct {
	Effort    provider.Effort `json:"effort,omitempty"`
	MaxTokens int             `json:"max_tokens,omitempty"`
}

// encodeReasoning returns the parameters for a server and a model; none where the caller asks for nothing.
func encodeReasoning(style ReasoningStyle, model string, asked *provider.Reasoning) (r reasoning) {
	level := asked.Level()
	if level == "" {
		return r
	}
	on := level != provider.EffortNone
	switch style {
	case ReasoningEffort:
		r.Effort = level.Within(levelsOf(model)...)
	case ReasoningThinking:
		r.Thinking = &switchable{"disabled"}
		if on {
			r.Thinking.Type = "enabled"
		}
	case ReasoningEnable:
		r.EnableThinking = &on
		if on {
			r.ThinkingBudget = asked.Budget()
		}
	case ReasoningTemplate:
		r.Template = map[string]bool{templateSwitch(model): on}
	case ReasoningNested:
		r.Nested = &nested{Effort: level}
		if asked.BudgetTokens > 0 {
			r.Nested = &nested{MaxTokens: asked.BudgetTokens}
		}
	}
	return r
}

// templateSwitch returns the name of the switch in a model's chat template.
func templateSwitch(model string) string {
	if name := strings.ToLower(model); strings.Contains(name, "deepseek") || strings.Contains(name, "granite") {
		return "thinking"
	}
	return "enable_thinking"
}

var gptVersion = regexp.MustCompile(`^gpt-(\d+)(?:\.(\d+))?`)

// gptVersionOf returns the version in a model's name, such as 5 and 1 for gpt-5.1; 0 for a name of another form.
func gptVersionOf(model string) (major, minor int) {
	found := gptVersion.FindStringSubmatch(bareName(model))
	if found == nil {
		return 0, 0
	}
	major, _ = strconv.Atoi(found[1]) // Digits; one that is too large counts as 0.
	minor, _ = strconv.Atoi(found[2])
	return major, minor
}

// levelsOf returns the efforts that a model takes, least first.
func levelsOf(model string) []provider.Effort {
	if levels := effortsOf(model); levels != nil {
		return levels
	}
	return []provider.Effort{provider.EffortLow, provider.EffortMedium, provider.EffortHigh}
}

// effortsOf returns the efforts that a model of OpenAI's is known to take, least first; nil for other models. Source:
// OpenAI API reference, "reasoning_effort", the models' pages, and the errors that name the supported values.
func effortsOf(model string) []provider.Effort {
	name := bareName(model)
	major, minor := gptVersionOf(model)
	isAt := func(least int) bool { return major > 5 || major == 5 && minor >= least }
	if major < 5 && !oSeries.MatchString(name) {
		return nil
	}
	isCodex, isPro := hasPart(name, "codex"), hasPart(name, "pro")
	levels := []provider.Effort{provider.EffortLow, provider.EffortMedium, provider.EffortHigh}
	switch {
	case isPro && major == 5 && minor < 2:
		return levels[2:]
	case isPro && major == 5 && minor < 5:
		levels = levels[1:]
	case isCodex || major == 0: // Both always reason.
	case isAt(1):
		levels = slices.Insert(levels, 0, provider.EffortNone)
	default:
		levels = slices.Insert(levels, 0, provider.EffortMinimal)
	}
	if isAt(2) || hasPart(name, "codex-max") {
		levels = append(levels, provider.EffortXHigh)
	}
	if isAt(6) {
		levels = append(levels, provider.EffortMax)
	}
	return levels
}

// hasPart reports whether a part of a name between dashes is part. A deployment may have any name: gpt-5-prod is no pro.
func hasPart(name, part string) bool { return strings.Contains(name+"-", "-"+part+"-") }

// acceptedEffort returns the JSON of an effort that the server accepts in place of the one in a caller's body: the
// nearest of OpenAI's own models. Any other value stays as it is.
func (p *Provider) acceptedEffort(model string, given gjson.Result) string {
	effort, levels := provider.Effort(given.Str), effortsOf(model)
	if p.traits.reasoning != ReasoningEffort || levels == nil || given.Type != gjson.String || !effort.IsKnown() {
		return given.Raw
	}
	return `"` + string(effort.Within(levels...)) + `"`
}

// acceptedReasoning is acceptedEffort for the member reasoning of Responses.
func (p *Provider) acceptedReasoning(model string, given gjson.Result) string {
	effort := given.Get("effort")
	accepted := p.acceptedEffort(model, effort)
	if !given.IsObject() || accepted == effort.Raw {
		return given.Raw
	}
	return string(wire.Override([]byte(given.Raw), wire.Member{Name: "effort", Value: accepted}))
}
