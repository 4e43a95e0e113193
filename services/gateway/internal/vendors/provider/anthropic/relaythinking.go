package anthropic

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// Versions of Claude by how a body may ask them to think. Sources: Anthropic documentation, "Adaptive thinking" and
// "Effort"; Amazon Bedrock user guide, "Adaptive thinking".
const (
	// firstUnbudgeted refuses a budget.
	firstUnbudgeted = 407
	// firstThinking5 thinks unless asked not to. Models from firstUnbudgeted up to it do not think unless asked, and some
	// hosts refuse to switch their thinking off.
	firstThinking5 = 500
	// firstEffort is the Opus that first had an effort. All models from firstAdaptive on have one.
	firstEffort = 405
)

// thinkingOff is the value of the member thinking that switches it off.
const thinkingOff = `{"type":"disabled"}`

// ownMembers are the members of a body in Anthropic's form that are adapted, or that say what the others must be.
type ownMembers struct {
	messages, thinking, output               gjson.Result
	maxTokens, temperature, topP, toolChoice gjson.Result
}

// membersOf returns the members of a body.
func membersOf(body gjson.Result) (m ownMembers) {
	places := map[string]*gjson.Result{
		"messages": &m.messages, "thinking": &m.thinking, "output_config": &m.output,
		"max_tokens": &m.maxTokens, "temperature": &m.temperature, "top_p": &m.topP, "tool_choice": &m.toolChoice,
	}
	body.ForEach(func(name, value gjson.Result) bool {
		if place := places[name.Str]; place != nil {
			*place = value
		}
		return true
	})
	return m
}

// adapt returns the members to set so that the model accepts how the body asks for thinking, and the names of the fields
// whose wish is lost. A member without a value is to be removed. For models whose version is not known, adapt only
// switches thinking off that another part of the request excludes.
func (m ownMembers) adapt(chat *provider.Chat) (members []wire.Member, lost []string) {
	asked := provider.Reasoning{Effort: provider.Effort(m.output.Get("effort").Str)}
	if m.thinking.Get("type").Str == "enabled" {
		asked.BudgetTokens = int(m.thinking.Get("budget_tokens").Int())
	}
	thinking, isLost := m.adaptThinking(chat, &asked)
	if thinking != m.thinking.Raw {
		members = append(members, wire.Member{Name: "thinking", Value: thinking})
	}
	if isLost {
		lost = append(lost, "thinking")
	}
	effort := adaptEffort(chat.Model, &asked, gjson.Get(thinking, "type").Str)
	if effort == asked.Effort {
		return members, lost
	}
	output := m.withEffort(effort)
	if effort == "" {
		if asBudget := m.thinking.Get("type").Str == "adaptive" && gjson.Get(thinking, "type").Str == "enabled"; !asBudget {
			lost = append(lost, "output_config.effort")
		}
	}
	return append(members, wire.Member{Name: "output_config", Value: output}), lost
}

// withEffort returns the value of the member output_config with an effort, or without one; empty for a value without
// members.
func (m ownMembers) withEffort(effort provider.Effort) string {
	given, value := "{}", ""
	if m.output.IsObject() {
		given = m.output.Raw
	}
	if effort != "" {
		value = strconv.Quote(string(effort))
	}
	if edited := string(wire.Override([]byte(given), wire.Member{Name: "effort", Value: value})); edited != "{}" {
		return edited
	}
	return ""
}

// adaptThinking returns the value of the member thinking that the model accepts, empty for none, and whether the
// caller's wish is lost. asked is that wish.
func (m ownMembers) adaptThinking(chat *provider.Chat, asked *provider.Reasoning) (value string, isLost bool) {
	v, given := knownVersion(chat.Model), m.thinking.Raw
	kind := m.thinking.Get("type").Str
	switch {
	case !m.thinking.IsObject():
		return given, false
	case kind == "disabled" && !canSwitchOff(chat.Model):
		return "", v >= firstThinking5
	case kind == "disabled":
		return given, false
	case obstacleTo(chat) != "" && !canSwitchOff(chat.Model):
		return "", true
	case obstacleTo(chat) != "":
		return thinkingOff, true
	case kind == "enabled" && v >= firstUnbudgeted:
		edits := []wire.Member{{Name: "type", Value: `"adaptive"`}, {Name: "budget_tokens"}}
		if !m.thinking.Get("display").Exists() { // With a budget it was the default.
			edits = append(edits, wire.Member{Name: "display", Value: `"` + summarized + `"`})
		}
		return string(wire.Override([]byte(given), edits...)), false
	case kind == "adaptive" && v >= firstThinking && v < firstAdaptive:
		plan := ThinkingPlan{MaxTokens: chat.MaxTokens}
		if plan.MaxTokens == 0 { // A count of tokens has no bound.
			plan.MaxTokens = outputLimitOf(chat.Model)
		}
		plan.think(asked, false, 0)
		budget := strconv.Itoa(plan.Config.Budget)
		return string(wire.Override([]byte(given), wire.Member{Name: "type", Value: `"enabled"`}, wire.Member{Name: "budget_tokens", Value: budget})), false
	}
	return given, false
}

// canSwitchOff reports whether every host of a model accepts thinkingOff.
func canSwitchOff(model string) bool {
	v := Version(model)
	return (v < firstUnbudgeted || v >= firstThinking5) && !alwaysThinks(model)
}

func alwaysThinks(model string) bool {
	name := strings.ToLower(model)
	return strings.Contains(name, "-fable") || strings.Contains(name, "-mythos")
}

// knownVersion returns Version, or 0 for a name that does not say which model it is: a deployment's own name, whose
// owner knows what its model accepts.
func knownVersion(model string) int {
	if v := Version(model); v != newest || alwaysThinks(model) {
		return v
	}
	return 0
}

// adaptEffort returns the effort that the model accepts with thinking of a type; empty for none. A budget that became
// adaptive thinking turns into an effort.
func adaptEffort(model string, asked *provider.Reasoning, thinking string) provider.Effort {
	effort := asked.Effort
	if effort == "" && thinking == "adaptive" {
		effort = asked.Level()
	}
	v := knownVersion(model)
	if v == 0 || !effort.IsKnown() || effort == provider.EffortNone {
		return asked.Effort
	}
	var levels []provider.Effort
	switch {
	case v >= firstThinking5 && thinking == "disabled", v == firstEffort && isOpus(model):
		levels = []provider.Effort{provider.EffortLow, provider.EffortMedium, provider.EffortHigh}
	case v >= firstAdaptive:
		levels = adaptiveLevels(v)
	default:
		return ""
	}
	return effort.Within(levels...)
}

func isOpus(model string) bool { return strings.Contains(strings.ToLower(model), "opus") }
