package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// extension is what a body of another API may set for this gateway in its field "switchyard": the contract's own fields
// besides the conversation.
type extension struct {
	OrganizationID     string            `json:"organization_id"`
	Provider           string            `json:"provider"`
	OptimizationGoal   string            `json:"optimization_goal"`
	Byok               *byokField        `json:"byok"`
	AllowSubstitution  *bool             `json:"allow_substitution"`
	DataClassification string            `json:"data_classification"`
	Locale             string            `json:"locale"`
	LanguageMode       string            `json:"language_mode"`
	Cache              string            `json:"cache"`
	RunID              string            `json:"run_id"`
	ApprovalRef        string            `json:"approval_ref"`
	Metadata           map[string]string `json:"metadata"`
	Tags               map[string]string `json:"tags"`

	// deployment is the model of the request's path; empty for none.
	deployment string
}

type byokField struct {
	Provider string `json:"provider"`
	Mode     string `json:"mode"`
}

// The same as headers, each of which sets one field.
const (
	headerGoal           = "X-Switchyard-Goal"
	headerAskedProvider  = "X-Switchyard-Provider"
	headerByok           = "X-Switchyard-Byok"
	headerSubstitution   = "X-Switchyard-Allow-Substitution"
	headerClassification = "X-Switchyard-Classification"
	headerLocale         = "X-Switchyard-Locale"
	headerLanguageMode   = "X-Switchyard-Language-Mode"
	headerCache          = "X-Switchyard-Cache"
	headerApproval       = "X-Switchyard-Approval-Ref"
)

// readExtension reads the field and the headers, which may not contradict each other.
func readExtension(raw []byte, header http.Header) (*extension, error) {
	e := extension{deployment: header.Get(headerDeployment)}
	if raw != nil {
		if err := decode(bytes.NewReader(raw), &e); err != nil {
			return nil, within(dialect.Extension, err)
		}
	}
	for _, pair := range []struct {
		name  string
		field *string
	}{
		{headerGoal, &e.OptimizationGoal},
		{headerAskedProvider, &e.Provider},
		{headerClassification, &e.DataClassification},
		{headerLocale, &e.Locale},
		{headerLanguageMode, &e.LanguageMode},
		{headerCache, &e.Cache},
		{headerApproval, &e.ApprovalRef},
	} {
		if err := agree(pair.name, header.Get(pair.name), pair.field); err != nil {
			return nil, err
		}
	}
	for _, name := range rawHeaders {
		if slices.ContainsFunc(header.Values(name), screen.HasKeyForm) {
			return nil, refuseKey(name)
		}
	}
	return &e, e.readFlags(header)
}

// readFlags reads the headers whose fields are not texts.
func (e *extension) readFlags(header http.Header) error {
	if mode := header.Get(headerByok); mode != "" {
		if e.Byok == nil {
			e.Byok = &byokField{}
		}
		if err := agree(headerByok, mode, &e.Byok.Mode); err != nil {
			return err
		}
	}
	text := header.Get(headerSubstitution)
	if text == "" {
		return nil
	}
	allow, err := strconv.ParseBool(strings.ToLower(text))
	switch {
	case err != nil:
		return apierr.Invalid(headerSubstitution, "must be true or false")
	case e.AllowSubstitution != nil && *e.AllowSubstitution != allow:
		return apierr.Invalid(headerSubstitution, "differs from the body's "+dialect.Extension)
	}
	e.AllowSubstitution = &allow
	return nil
}

func agree(name, value string, field *string) error {
	if value == "" {
		return nil
	}
	if *field != "" && *field != value {
		return apierr.Invalid(name, "differs from the body's "+dialect.Extension)
	}
	*field = value
	return nil
}

// message returns the extension as a message of the contract, so that the contract's rules apply to it. Its
// one message is there because the rules demand one; the conversation itself is parsed by the dialect.
func (e *extension) message(model string, labels map[string]string) *gatewayv1.LlmRequest {
	m := &gatewayv1.LlmRequest{
		OrganizationId: e.OrganizationID, Model: cmp.Or(e.deployment, model), Provider: e.Provider, OptimizationGoal: e.OptimizationGoal,
		AllowSubstitution: e.AllowSubstitution, DataClassification: e.DataClassification,
		Locale: e.Locale, LanguageMode: e.LanguageMode, Cache: e.Cache, RunId: e.RunID, ApprovalRef: e.ApprovalRef,
		Metadata: labels, Tags: e.Tags,
		Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: json.RawMessage(`"-"`)}},
	}
	if e.Metadata != nil {
		m.Metadata = e.Metadata
	}
	if e.Byok != nil {
		m.Byok = &gatewayv1.ByokReference{Provider: e.Byok.Provider, Mode: e.Byok.Mode}
	}
	return m
}

// toNativeRequest returns a request from a chat in a dialect's form. change modifies its extension; nil is none.
func toNativeRequest(ctx context.Context, chat *dialect.Chat, header http.Header, change func(*extension)) (*inference.Request, error) {
	e, err := readExtension(chat.Extension, header)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(e)
	}
	m := e.message(chat.Model, chat.Metadata)
	if err := checkRead(m, chat.Extension, chat.Chat.Native.Body); err != nil {
		return nil, err
	}
	r, err := toRequest(ctx, m)
	if err != nil {
		return nil, err
	}
	r.Chat, r.Bounds, r.ShowsReasoning, r.KeepsAnswer = chat.Chat, chat.Bounds, chat.Reasoning, chat.Keeps
	r.Hints, r.Route.Needs, r.Stored, r.ShowsImages = chat.Hints, chat.Needs(), chat.Stored, chat.Images
	if r.Locale == "" {
		return r, nil
	}
	native := *r.Chat.Native
	if native.Body, err = chat.Localize(native.Body, inference.Instruction(r.Locale, r.ForceLocale)); err != nil {
		return nil, apierr.Internal(err)
	}
	r.Chat.Native = &native
	return r, nil
}
