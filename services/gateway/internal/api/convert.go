package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/tag"
	"switchyard.dev/services/platform/telemetry"
)

// asked is what the requests of all operations have in common.
type asked interface {
	GetOrganizationId() string
	GetRunId() string
	GetModel() string
	GetProvider() string
	GetOptimizationGoal() string
	GetDataClassification() string
	GetByok() *gatewayv1.ByokReference
	GetMetadata() map[string]string
	GetTags() map[string]string
}

// newRequest returns a request from what the messages of all operations have in common: the caller, the organization
// and the wanted provider. Substitution is allowed unless it is forbidden.
func newRequest(ctx context.Context, operation provider.Operation, m asked, substitution *bool) (*inference.Request, error) {
	c := caller.From(ctx)
	for _, id := range []struct{ field, value string }{
		{"organization_id", m.GetOrganizationId()}, {"run_id", m.GetRunId()}, {"model", m.GetModel()},
	} {
		if !caller.Printable(id.value) {
			return nil, apierr.Invalid(id.field, "must be printable ASCII, at most 256 characters")
		}
	}
	organization, err := c.OrganizationOf(m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	run, err := c.RunOf(m.GetRunId())
	if err != nil {
		return nil, err
	}
	byokProvider := m.GetByok().GetProvider()
	if byokProvider != "" && m.GetProvider() != "" && !strings.EqualFold(byokProvider, m.GetProvider()) {
		return nil, apierr.Invalid("byok.provider", "differs from provider")
	}
	terms, err := keyterm.Parse(c.KeyTerms)
	if err != nil {
		return nil, err
	}
	tags, err := tag.Of(c.Tags, m.GetTags())
	if err != nil {
		return nil, err
	}
	return &inference.Request{
		ID: telemetry.RequestID(ctx), Organization: organization, Key: c.Key, KeyTerms: terms, Service: c.Name, Run: run, User: c.User,
		Route: routing.Request{
			Operation: operation, Organization: organization, Classification: m.GetDataClassification(),
			Model: cmp.Or(m.GetModel(), policy.DefaultModel), Provider: cmp.Or(m.GetProvider(), byokProvider), Goal: policy.Goal(m.GetOptimizationGoal()),
			Substitution: substitution == nil || *substitution,
		},
		Byok: byokMode(m.GetByok()), ByokProvider: byokProvider, Metadata: m.GetMetadata(), Tags: tags,
	}, nil
}

// bypass is the value of cache that disables the response cache for a request.
const bypass = "bypass"

// toRequest returns a request from a message that satisfies the contract's rules. It checks, for both faces, what those
// rules can't express.
func toRequest(ctx context.Context, m *gatewayv1.LlmRequest) (*inference.Request, error) {
	r, err := newRequest(ctx, provider.OperationChat, m, m.AllowSubstitution)
	if err != nil {
		return nil, err
	}
	if r.ForceLocale, err = forceLocale(m); err != nil {
		return nil, err
	}
	if err := plainContent(m.GetMessages()); err != nil {
		return nil, err
	}
	chat, err := toChat(m)
	if err != nil {
		return nil, err
	}
	r.Chat, r.Locale, r.ShowsImages = *chat, m.GetLocale(), true
	r.Hints = append(stateHints(chat), hints(m)...)
	r.BypassCache, r.ApprovalRef = m.GetCache() == bypass, m.GetApprovalRef()
	return r, nil
}

// hints returns the settings in a request that some vendors or models refuse.
func hints(m *gatewayv1.LlmRequest) (fields []provider.HintField) {
	for _, f := range []struct {
		set  bool
		kind provider.Hint
		name string
	}{
		{m.Seed != nil, provider.HintSeed, "seed"},
		{m.Temperature != nil, provider.HintTemperature, "temperature"},
		{m.TopP != nil, provider.HintTopP, "top_p"},
		{len(m.GetStop()) > 0, provider.HintStop, "stop"},
	} {
		if f.set {
			fields = append(fields, provider.HintField{Kind: f.kind, Name: f.name})
		}
	}
	return fields
}

// stateHints returns a hint for the opaque state of tool calls, which only some providers accept.
func stateHints(chat *provider.Chat) []provider.HintField {
	var states dialect.Chat
	for i := range chat.Messages {
		for _, call := range chat.Messages[i].ToolCalls {
			states.State("tool_calls.extra_content", call.Extra, "")
		}
	}
	return states.Hints
}

func byokMode(b *gatewayv1.ByokReference) keyring.Mode {
	switch {
	case b == nil:
		return ""
	case b.GetMode() == "":
		return keyring.ModeRequire
	}
	return keyring.Mode(b.GetMode())
}

// forceLocale returns the one setting that has two names.
func forceLocale(m *gatewayv1.LlmRequest) (bool, error) {
	language, locale := m.GetLanguageMode(), m.GetLocaleMode()
	if language != "" && locale != "" && language != locale {
		return false, apierr.Invalid("locale_mode", "differs from language_mode, which is the same setting")
	}
	force := language == "force" || locale == "force"
	if force && m.GetLocale() == "" {
		return false, apierr.Invalid("locale", "is required with language_mode force")
	}
	return force, nil
}

func toChat(m *gatewayv1.LlmRequest) (*provider.Chat, error) {
	chat := &provider.Chat{
		MaxTokens: int(m.GetMaxTokens()), Temperature: m.Temperature, TopP: m.TopP, Stop: m.GetStop(),
		Messages: make([]provider.Message, 0, len(m.GetMessages())+1),
	}
	if m.Seed != nil {
		chat.Seed = new(int64(m.GetSeed()))
	}
	if r := m.GetReasoning(); r != nil {
		chat.Reasoning = &provider.Reasoning{
			Effort: provider.Effort(r.GetEffort()), BudgetTokens: int(r.GetBudgetTokens()), Summary: r.GetSummary(), Required: r.GetRequired(),
		}
	}
	for i, message := range m.GetMessages() {
		converted, err := toMessage(message)
		if err != nil {
			return nil, within(dialect.At("messages", i), err)
		}
		chat.Messages = append(chat.Messages, converted)
	}
	var err error
	if chat.Tools, err = toTools(m.GetTools()); err != nil {
		return nil, err
	}
	if chat.ToolChoice, err = toToolChoice(m.GetToolChoice(), chat.Tools); err != nil {
		return nil, err
	}
	chat.ResponseFormat, err = toResponseFormat(m.GetResponseFormat())
	return chat, err
}

func toTools(tools []*gatewayv1.Tool) ([]provider.Tool, error) {
	var out []provider.Tool
	for i, tool := range tools {
		f := tool.GetFunction()
		if slices.ContainsFunc(out, func(t provider.Tool) bool { return t.Name == f.GetName() }) {
			return nil, apierr.Invalid(dialect.At("tools", i)+".function.name", "appears twice")
		}
		parameters := bytes.TrimSpace(f.GetParameters())
		if len(parameters) > 0 && (parameters[0] != '{' || !jsoncheck.Valid(parameters)) {
			return nil, apierr.Invalid(dialect.At("tools", i)+".function.parameters", "must be a JSON object")
		}
		out = append(out, provider.Tool{
			Name: f.GetName(), Description: f.GetDescription(), Parameters: parameters, Strict: f.GetStrict(),
		})
	}
	return out, nil
}

func toToolChoice(raw []byte, tools []provider.Tool) (*provider.ToolChoice, error) {
	const path = "tool_choice"
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, nil
	}
	if len(tools) == 0 {
		return nil, apierr.Invalid(path, "needs tools")
	}
	if raw[0] == '"' {
		var mode string
		if err := json.Unmarshal(raw, &mode); err != nil || !slices.Contains([]string{"auto", "none", "required"}, mode) {
			return nil, apierr.Invalid(path, "must be auto, none, required or a function")
		}
		return &provider.ToolChoice{Mode: mode}, nil
	}
	var choice struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := decode(bytes.NewReader(raw), &choice); err != nil {
		return nil, within(path, err)
	}
	name := choice.Function.Name
	switch {
	case choice.Type != "function":
		return nil, apierr.Invalid(path+".type", "must be function")
	case !slices.ContainsFunc(tools, func(t provider.Tool) bool { return t.Name == name }):
		return nil, apierr.Invalid(path+".function.name", "must be one of tools")
	}
	return &provider.ToolChoice{Mode: "tool", Name: name}, nil
}

// toResponseFormat returns the format unchanged; nil means text.
func toResponseFormat(raw []byte) (json.RawMessage, error) {
	const path = "response_format"
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	var format struct {
		Type       string `json:"type"`
		JSONSchema *struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict"`
		} `json:"json_schema"`
	}
	if err := decode(bytes.NewReader(raw), &format); err != nil {
		return nil, within(path, err)
	}
	switch {
	case format.Type == "text" && format.JSONSchema == nil:
		return nil, nil
	case format.Type == "json_object" && format.JSONSchema == nil:
		return raw, nil
	case format.Type != "json_schema":
		return nil, apierr.Invalid(path, "must be of type text, json_object or json_schema, and only the last has json_schema")
	case format.JSONSchema == nil || format.JSONSchema.Name == "" || !bytes.HasPrefix(format.JSONSchema.Schema, []byte("{")):
		return nil, apierr.Invalid(path+".json_schema", "needs a name, and a schema that is an object")
	}
	return raw, nil
}

// whole is the field name that an error of a nested text uses for the whole.
const whole = "body"

// within puts the field of a nested text before its error. Paths are built only for errors.
func within(path string, err error) error {
	e := *apierr.From(err)
	rest, all := strings.CutPrefix(e.Text, whole+":")
	switch {
	case all:
		e.Text = path + ":" + rest
	case strings.HasPrefix(e.Text, "["):
		e.Text = path + e.Text
	default:
		e.Text = path + "." + e.Text
	}
	return &e
}
