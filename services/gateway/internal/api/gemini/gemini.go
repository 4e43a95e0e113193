// Package gemini implements the wire format of Google's generateContent API for the gateway's callers: chats,
// embeddings, counts of tokens and models. Package api serves it. Source: Gemini API reference, version v1beta, and the
// types of Google's own client (google.golang.org/genai).
package gemini

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	vendor "switchyard.dev/services/gateway/internal/vendors/provider/gemini"
	"switchyard.dev/services/platform/jsoncheck"
)

// Dialect implements dialect.Dialect and dialect.Lister.
type Dialect struct{}

// Name returns the dialect's name, which providers of the dialect have too.
func (Dialect) Name() string { return vendor.DialectName }

// writer writes the answer to one request.
type writer struct {
	// thoughts reports whether the caller asks to see thoughts, array whether its stream is an array of JSON.
	thoughts, array bool
}

// response is a whole answer, and one chunk of a stream.
type response struct {
	Candidates []candidate    `json:"candidates"`
	Usage      *usageMetadata `json:"usageMetadata,omitempty"`
	Model      string         `json:"modelVersion"`
	ID         string         `json:"responseId"`
}

type candidate struct {
	Content turn   `json:"content"`
	Finish  string `json:"finishReason,omitempty"`
	Index   int    `json:"index"`
	// Grounding holds the text's sources.
	Grounding *grounding `json:"groundingMetadata,omitempty"`
}

type turn struct {
	Parts []answerPart `json:"parts"`
	Role  string       `json:"role"`
}

// answerPart is a text (a thought if Thought is set), an image or a call.
type answerPart struct {
	Text    *string     `json:"text,omitempty"`
	Thought bool        `json:"thought,omitempty"`
	Inline  *inlineData `json:"inlineData,omitempty"`
	File    *fileData   `json:"fileData,omitempty"`
	Call    *answerCall `json:"functionCall,omitempty"`
	// Signature is the state that must come back with the part.
	Signature string `json:"thoughtSignature,omitempty"`
}

type answerCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// usageMetadata counts what is cached within the prompt, and thoughts beside the candidates.
type usageMetadata struct {
	Prompt     int64 `json:"promptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount,omitempty"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount,omitempty"`
	Total      int64 `json:"totalTokenCount"`
}

func toUsage(r ledger.Report) *usageMetadata {
	thoughts := min(r.Usage.Reasoning, r.Completion)
	return &usageMetadata{
		Prompt: r.Prompt, Cached: r.Usage.CacheRead, Candidates: r.Completion - thoughts, Thoughts: thoughts, Total: r.Prompt + r.Completion,
	}
}

const roleModel = "model"

// newResponse returns an answer of one candidate with some parts.
func newResponse(model, id string, parts []answerPart) response {
	if parts == nil {
		parts = []answerPart{}
	}
	return response{Candidates: []candidate{{Content: turn{parts, roleModel}}}, Model: model, ID: id}
}

func newID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

// modelPath is the place of the model's name in an answer.
const modelPath = "modelVersion"

// Answer returns the provider's own answer with the caller's model name, or a new one.
func (w writer) Answer(reply dialect.Reply, c *inference.Completion) ([]byte, error) {
	if c.Native != nil {
		return dialect.NewRenamer(modelPath, reply.Model).Append(nil, c.Native), nil
	}
	var parts []answerPart
	if c.Reasoning != "" && w.thoughts {
		parts = append(parts, thought(c.Reasoning))
	}
	if c.Text != "" {
		parts = append(parts, answerPart{Text: &c.Text})
	}
	for _, uri := range c.Images {
		parts = append(parts, imagePart(uri))
	}
	for _, call := range c.ToolCalls {
		parts = append(parts, callPart(call.ID, call.Name, call.Arguments, call.Extra))
	}
	r := newResponse(reply.Model, newID(), parts)
	r.Candidates[0].Finish, r.Usage = finishReason(c.FinishReason), toUsage(c.Report)
	r.Candidates[0].Grounding = toGrounding(c.Text, c.Citations)
	return jsontext.Marshal(r)
}

func thought(text string) answerPart {
	return answerPart{Text: &text, Thought: true, Signature: vendor.OwnSignature}
}

func callPart(id, name, arguments string, extra json.RawMessage) answerPart {
	return answerPart{Call: &answerCall{id, name, args(arguments)}, Signature: vendor.Signature(extra)}
}

// args returns a call's arguments as the object that this API requires. Arguments that are not an object, because the
// answer was cut or the model made a mistake, are put into one as text.
func args(arguments string) json.RawMessage {
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

// finishReason maps the contract's finish reasons; an answer that ends with calls has stopped, too.
func finishReason(finish provider.FinishReason) string {
	switch finish {
	case provider.FinishLength:
		return "MAX_TOKENS"
	case provider.FinishContentFilter:
		return "SAFETY"
	case provider.FinishStop, provider.FinishToolCalls:
	}
	return "STOP"
}

// modelList is the answer of GET /v1beta/models, all on one page.
type modelList struct {
	Models []model `json:"models"`
}

type model struct {
	Name        string   `json:"name"`
	BaseID      string   `json:"baseModelId"`
	Version     string   `json:"version"`
	DisplayName string   `json:"displayName"`
	Methods     []string `json:"supportedGenerationMethods"`
}

// collection is the collection of models, which their names begin with.
const collection = "models/"

// methods are those of the face. Which of them a model serves depends on the policy at the time of the request.
var methods = []string{"generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"}

// Models returns the list of models by the names that a request may use.
func (Dialect) Models(models []provider.Target) any {
	list := modelList{Models: []model{}}
	for _, m := range models {
		list.Models = append(list.Models, toModel(m))
	}
	return list
}

// Model returns one entry of the list.
func (Dialect) Model(m provider.Target) any { return toModel(m) }

func toModel(m provider.Target) model {
	return model{Name: collection + m.Model, BaseID: m.Model, Version: m.Model, DisplayName: m.Model, Methods: methods}
}
