// Package anthropic implements the wire format of the Anthropic Messages API for the gateway's callers. Package api
// serves it.
package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	server "switchyard.dev/services/gateway/internal/vendors/provider/openai"
	"switchyard.dev/services/platform/jsoncheck"
)

// Dialect implements dialect.Dialect, and writes its answers and lists of models.
type Dialect struct{}

// Name returns the dialect's name, which providers of the dialect have too.
func (Dialect) Name() string { return "anthropic" }

// message is a whole answer, and the first event's message of a stream.
type message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

// block is a text, thinking or, with an ID, a tool use.
type block struct {
	Type string  `json:"type"`
	Text *string `json:"text,omitempty"`
	// Citations lists the sources of Text.
	Citations []citation `json:"citations,omitempty"`
	// Thinking has a Signature, which is the gateway's own: the vendor of this dialect is never sent it.
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	// ExtraContent is opaque state of another vendor that must come back with the call. Its reasoning text is left out,
	// because the thinking block before it shows that text.
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

// usage counts disjointly: input_tokens excludes cached tokens.
type usage struct {
	InputTokens              int64         `json:"input_tokens"`
	CacheCreationInputTokens int64         `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64         `json:"cache_read_input_tokens"`
	CacheCreation            cacheCreation `json:"cache_creation"`
	OutputTokens             int64         `json:"output_tokens"`
}

type cacheCreation struct {
	FiveMinutes int64 `json:"ephemeral_5m_input_tokens"`
	OneHour     int64 `json:"ephemeral_1h_input_tokens"`
}

func toUsage(r ledger.Report) usage {
	u := r.Usage
	return usage{
		InputTokens: u.Input + u.ImageInput + u.AudioInput, CacheReadInputTokens: u.CacheRead,
		CacheCreationInputTokens: u.CacheWrite + u.CacheWriteLong, CacheCreation: cacheCreation{u.CacheWrite, u.CacheWriteLong},
		OutputTokens: r.Completion,
	}
}

// newID returns an id of the API's form.
func newID(prefix string) string {
	id := uuid.New()
	return fmt.Sprintf("%s_%x", prefix, id[:])
}

// Answer returns the provider's own answer with the caller's model name, or a new one.
func (Dialect) Answer(reply dialect.Reply, c *inference.Completion) ([]byte, error) {
	if c.Native != nil {
		return dialect.NewRenamer("model", reply.Model).Append(nil, c.Native), nil
	}
	m := head(reply)
	if c.Reasoning != "" {
		m.Content = append(m.Content, block{Type: typeThinking, Thinking: &c.Reasoning, Signature: new(vendor.OwnSignature)})
	}
	if c.Text != "" || len(c.Citations) > 0 {
		m.Content = append(m.Content, block{Type: "text", Text: &c.Text, Citations: toCitations(c.Citations)})
	}
	for _, call := range c.ToolCalls {
		m.Content = append(m.Content, block{Type: "tool_use", ID: call.ID, Name: call.Name, Input: input(call.Arguments), ExtraContent: server.WithoutText(call.Extra)})
	}
	m.StopReason, m.Usage = new(stopReason(c.FinishReason)), toUsage(c.Report)
	return jsontext.Marshal(m)
}

const typeThinking = "thinking"

func head(reply dialect.Reply) message {
	return message{ID: newID("msg"), Type: "message", Role: "assistant", Model: reply.Model, Content: []block{}}
}

// input returns a call's arguments as the object that this API requires. Arguments that are not an object, because the
// answer was cut or the model made a mistake, are put into one as text.
func input(arguments string) json.RawMessage {
	raw := bytes.TrimSpace([]byte(arguments))
	switch {
	case len(raw) == 0:
		return json.RawMessage("{}")
	case raw[0] == '{' && jsoncheck.Valid(raw):
		return raw
	}
	text, _ := jsontext.Marshal(map[string]string{"raw_arguments": arguments}) // Texts always marshal.
	return text
}

func stopReason(finish provider.FinishReason) string {
	switch finish {
	case provider.FinishLength:
		return "max_tokens"
	case provider.FinishToolCalls:
		return "tool_use"
	case provider.FinishContentFilter:
		return "refusal"
	case provider.FinishStop:
	}
	return "end_turn"
}

// modelList is the response of GET /v1/models, all on one page.
type modelList struct {
	Data    []model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

type model struct {
	Type        string    `json:"type"`
	ID          string    `json:"id"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"` // Not known: the epoch, as in the API.
}

// Models returns the list of models by the names that a request may use.
func (Dialect) Models(models []provider.Target) any {
	list := modelList{Data: []model{}}
	for _, m := range models {
		list.Data = append(list.Data, toModel(m))
	}
	if n := len(models); n > 0 {
		list.FirstID, list.LastID = &models[0].Model, &models[n-1].Model
	}
	return list
}

// Model returns one entry of the list.
func (Dialect) Model(m provider.Target) any { return toModel(m) }

func toModel(m provider.Target) model {
	return model{Type: "model", ID: m.Model, DisplayName: m.Model, CreatedAt: time.Unix(0, 0).UTC()}
}
