package sampling

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Bounds of a question.
const (
	maxParams      = 1 << 20
	maxMessages    = 256
	maxBlocks      = 64
	maxTools       = 128
	maxID          = 256
	maxDescription = 32 << 10
	maxStops       = 16
	maxStop        = 256
	maxHints       = 16
	maxTemperature = 2
)

// question is what a server asks for.
type question struct {
	chat provider.Chat
	// hints are names of models that the server prefers, the best first, and goal is what matters most to it; both may be
	// empty.
	hints []string
	goal  policy.Goal
	// text is the canonical form of the parameters.
	text []byte
}

// params are the parameters of sampling/createMessage. What is not here is ignored, as the context that the server would
// like to have included, and its metadata for vendors.
//
// Arrays are read by list, which counts their elements before it keeps them.
type params struct {
	Messages    jsontext.Value `json:"messages"`
	Preferences preferences    `json:"modelPreferences"`
	System      string         `json:"systemPrompt"`
	MaxTokens   *int64         `json:"maxTokens"`
	Temperature *float64       `json:"temperature"`
	Stop        jsontext.Value `json:"stopSequences"`
	Metadata    struct{}       `json:"metadata"`
	Tools       jsontext.Value `json:"tools"`
	ToolChoice  *toolChoice    `json:"toolChoice"`
}

type preferences struct {
	Hints        jsontext.Value `json:"hints"`
	Cost         float64        `json:"costPriority"`
	Speed        float64        `json:"speedPriority"`
	Intelligence float64        `json:"intelligencePriority"`
}

type hint struct {
	Name string `json:"name"`
}

type toolChoice struct {
	Mode string `json:"mode"`
}

type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)

const ruleName = `must have 1 to 128 letters, digits, "_", ".", ":" and "-"`

// read reads the parameters of a server. tools reports whether it may offer tools to the model.
func read(text []byte, tools bool) (*question, error) {
	if len(text) > maxParams {
		return nil, apierr.Invalid("params", "must be at most 1 MiB")
	}
	form, err := canonical.Object(text)
	if err != nil {
		if refused, ok := errors.AsType[*canonical.Error](err); ok {
			return nil, apierr.Invalid("params"+path(refused.Pointer), refused.Rule)
		}
		return nil, apierr.Internal(err)
	}
	var p params
	if err := decode(form, "params", &p); err != nil {
		return nil, err
	}
	q := &question{text: form, goal: p.Preferences.goal()}
	for _, part := range []func(p *params) error{q.setBounds, q.setHints, func(p *params) error { return q.setTools(p, tools) }} {
		if err := part(&p); err != nil {
			return nil, err
		}
	}
	messages, err := list[message](p.Messages, "params.messages", maxMessages)
	switch {
	case err != nil:
		return nil, err
	case len(messages) == 0:
		return nil, apierr.Invalid("params.messages", "is required")
	case p.System != "":
		q.chat.Messages = append(q.chat.Messages, provider.Message{Role: provider.RoleSystem, Content: []provider.Part{{Text: p.System}}})
	}
	q.chat.Messages, err = appendMessages(q.chat.Messages, messages, tools)
	return q, err
}

// setBounds sets what bounds the answer, and its temperature.
func (q *question) setBounds(p *params) error {
	switch {
	case p.MaxTokens == nil:
		return apierr.Invalid("params.maxTokens", "is required")
	case *p.MaxTokens < 1:
		return apierr.Invalid("params.maxTokens", "must be 1 or more")
	case p.Temperature != nil && (*p.Temperature < 0 || *p.Temperature > maxTemperature):
		return apierr.Invalid("params.temperature", fmt.Sprintf("must be 0 to %d", maxTemperature))
	}
	q.chat.MaxTokens, q.chat.Temperature = int(min(*p.MaxTokens, math.MaxInt32)), p.Temperature
	const field = "params.stopSequences"
	var err error
	if q.chat.Stop, err = list[string](p.Stop, field, maxStops); err != nil {
		return err
	}
	for i, stop := range q.chat.Stop {
		if stop == "" || len(stop) > maxStop {
			return apierr.Invalid(at(field, i), fmt.Sprintf("must have 1 to %d bytes", maxStop))
		}
	}
	return nil
}

// setHints sets which models the server prefers.
func (q *question) setHints(p *params) error {
	const field = "params.modelPreferences"
	hints, err := list[hint](p.Preferences.Hints, field+".hints", maxHints)
	if err != nil {
		return err
	}
	for i, h := range hints {
		switch {
		case len(h.Name) > maxID:
			return apierr.Invalid(at(field+".hints", i)+".name", fmt.Sprintf("must have at most %d bytes", maxID))
		case h.Name != "":
			q.hints = append(q.hints, h.Name)
		}
	}
	for _, each := range []struct {
		name  string
		value float64
	}{{"costPriority", p.Preferences.Cost}, {"speedPriority", p.Preferences.Speed}, {"intelligencePriority", p.Preferences.Intelligence}} {
		if each.value < 0 || each.value > 1 {
			return apierr.Invalid(field+"."+each.name, "must be 0 to 1")
		}
	}
	return nil
}

// goal returns what matters most to the server; empty where nothing matters more than the rest.
func (p *preferences) goal() policy.Goal {
	switch {
	case p.Cost > max(p.Speed, p.Intelligence):
		return policy.GoalCost
	case p.Speed > max(p.Cost, p.Intelligence):
		return policy.GoalLatency
	case p.Intelligence > max(p.Cost, p.Speed):
		return policy.GoalQuality
	}
	return ""
}

// errNoTools is the rule that a server breaks that may offer no tools.
const errNoTools = "must be absent: the policy lets this server use no tools (tools.sampling: tools)"

// setTools sets the tools that the server offers to the model.
func (q *question) setTools(p *params, allowed bool) error {
	switch {
	case !allowed && isGiven(p.Tools):
		return apierr.Invalid("params.tools", errNoTools)
	case !allowed && p.ToolChoice != nil:
		return apierr.Invalid("params.toolChoice", errNoTools)
	}
	tools, err := list[tool](p.Tools, "params.tools", maxTools)
	if err != nil {
		return err
	}
	names := make(map[string]bool, len(tools))
	for i := range tools {
		t, field := &tools[i], at("params.tools", i)
		if err := t.check(field); err != nil {
			return err
		}
		if names[t.Name] {
			return apierr.Invalid(field+".name", "appears twice")
		}
		names[t.Name] = true
		q.chat.Tools = append(q.chat.Tools, provider.Tool{Name: t.Name, Description: t.Description, Parameters: []byte(t.InputSchema)})
	}
	if p.ToolChoice == nil {
		return nil
	}
	switch mode := p.ToolChoice.Mode; {
	case len(tools) == 0:
		return apierr.Invalid("params.toolChoice", "needs tools")
	case mode == "auto", mode == "required", mode == "none":
		q.chat.ToolChoice = &provider.ToolChoice{Mode: mode}
	case mode != "":
		return apierr.Invalid("params.toolChoice.mode", "must be auto, required or none")
	}
	return nil
}

func (t *tool) check(field string) error {
	switch {
	case !toolName.MatchString(t.Name):
		return apierr.Invalid(field+".name", ruleName)
	case len(t.Description) > maxDescription:
		return apierr.Invalid(field+".description", fmt.Sprintf("must have at most %d bytes", maxDescription))
	case t.InputSchema.Kind() != '{':
		return apierr.Invalid(field+".inputSchema", "must be an object")
	}
	return nil
}

// isGiven reports whether a member has a value.
func isGiven(value jsontext.Value) bool { return len(value) > 0 && value.Kind() != 'n' }

// list reads an array of at most so many elements; nil for none.
func list[T any](text jsontext.Value, field string, most int) (all []T, err error) {
	if !isGiven(text) {
		return nil, nil
	}
	array := wire.Elements(text, func(value []byte) bool {
		if len(all) == most {
			err = apierr.Invalid(field, fmt.Sprintf("must have at most %d elements", most))
			return false
		}
		var element T
		err = decode(value, at(field, len(all)), &element)
		all = append(all, element)
		return err == nil
	})
	if !array {
		err = apierr.Invalid(field, "must be an array")
	}
	return all, err
}

func at(field string, index int) string { return field + "[" + strconv.Itoa(index) + "]" }

// decode reads canonical JSON. Members that a type doesn't have are ignored.
func decode(text []byte, field string, into any) error {
	err := jsonv2.Unmarshal(text, into)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		return apierr.Invalid(field+path(string(wrong.JSONPointer)), "must be "+kindOf(wrong.GoType))
	}
	return apierr.Internal(err)
}

// kindOf returns the JSON that a type is read from.
func kindOf(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	default:
		return "an object"
	}
}

// path returns a JSON Pointer as the path behind a field.
func path(pointer string) string {
	var out strings.Builder
	for _, part := range strings.Split(pointer, "/")[1:] {
		if _, err := strconv.ParseUint(part, 10, 31); err == nil {
			out.WriteString("[" + part + "]")
			continue
		}
		out.WriteString("." + part)
	}
	return out.String()
}
