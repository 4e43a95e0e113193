// Package sampling answers tool servers that ask for completions while they are called (sampling/createMessage). Where
// the policy says so the gateway makes the completion itself: as a chat of the organization, run, key and user on whose
// behalf the tool was called, with their limits and budgets. What a server writes is in that one request alone. Package
// toolcall calls it; package inference does the rest.
package sampling

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Form is the form of captured questions; see trace.RawRequest. They are not asked again by themselves.
const Form = "sampling"

// Engine makes completions; see inference.Engine.
type Engine interface {
	Chat(ctx context.Context, r *inference.Request) (*inference.Completion, error)
	// Check returns the error with which a request would be refused now.
	Check(ctx context.Context, r *inference.Request) error
	// Models returns what callers may ask for at present.
	Models() []provider.Target
}

// Sampler implements toolcall.Sampler. Safe for concurrent use.
type Sampler struct{ engine Engine }

// New returns a Sampler.
func New(engine Engine) *Sampler { return &Sampler{engine} }

// Sample returns the result for a server's parameters of sampling/createMessage: a completion by the policy's model, which
// may be shorter than the server wants. The error is an *apierr.Error; one of the parameters begins with "params".
func (s *Sampler) Sample(
	ctx context.Context, a *toolcall.Asker, server string, terms toolrule.Sampling, params json.RawMessage,
) (json.RawMessage, error) {
	q, err := read(params, terms.Tools)
	if err != nil {
		return nil, err
	}
	r := q.request(a, server, terms)
	s.choose(ctx, r, q, terms)
	completion, err := s.engine.Chat(ctx, r)
	if err != nil {
		return nil, err
	}
	return answer(completion)
}

// request returns a question as a request of its asker. It asks for the policy's model, or the default.
//
// The cache of answers is left out: a server that guesses what was asked before learns nothing, and puts nothing there.
func (q *question) request(a *toolcall.Asker, server string, terms toolrule.Sampling) *inference.Request {
	r := &inference.Request{
		ID: a.RequestID, Organization: a.Organization, Key: a.Key, Service: a.Service, Run: a.Run, User: a.User, KeyTerms: a.KeyTerms,
		Tags: a.Tags, BypassCache: true, Chat: q.chat,
		Route: routing.Request{
			Operation: provider.OperationChat, Organization: a.Organization, Model: cmp.Or(terms.Model, policy.DefaultModel), Substitution: true,
		},
		Raw: trace.RawRequest{Form: Form, Encode: func() (json.RawMessage, error) { return jsontext.Marshal(captured{server, q.text}) }},
	}
	r.Bounds.LimitField = "maxTokens"
	r.Chat.MaxTokens = min(r.Chat.MaxTokens, cmp.Or(terms.MaxTokens, toolrule.DefaultSamplingTokens))
	return r
}

// captured is a question as it is kept.
type captured struct {
	Server string          `json:"server"`
	Params json.RawMessage `json:"params"`
}

// maxHinted is how many of a server's hints may be looked at that name models.
const maxHinted = 4

// choose sets the model that the server prefers, where the policy names none: the first of its hints that is the name of
// a model which the asker may use now. Without one it sets the goal of the server's priorities.
func (s *Sampler) choose(ctx context.Context, r *inference.Request, q *question, terms toolrule.Sampling) {
	if terms.Model != "" {
		return
	}
	if len(q.hints) > 0 {
		models := s.engine.Models()
		looked := 0
		for _, hint := range q.hints {
			if looked == maxHinted {
				break
			}
			if !slices.ContainsFunc(models, func(t provider.Target) bool { return hint == t.Model || hint == t.String() }) {
				continue
			}
			looked++
			wanted := *r
			wanted.Route.Model = hint
			if s.engine.Check(ctx, &wanted) == nil {
				r.Route.Model = hint
				return
			}
		}
	}
	r.Route.Goal = q.goal
}

// result is the result of sampling/createMessage. Content is a block, or several where the model calls tools.
type result struct {
	Role       string `json:"role"`
	Content    any    `json:"content"`
	Model      string `json:"model"`
	StopReason string `json:"stopReason"`
}

// written is a block that the model wrote.
type written struct {
	Type  string          `json:"type"`
	Text  *string         `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// errArguments is the error of a model that calls a tool with what no tool takes.
var errArguments = apierr.New(apierr.KindUpstream, inference.ReasonProviderFailed, "the model called a tool with arguments that are no JSON object")

// answer returns a completion as the result for a server.
func answer(c *inference.Completion) (json.RawMessage, error) {
	text := written{Type: "text", Text: &c.Text}
	r := result{Role: "assistant", Content: text, Model: c.Route.Model, StopReason: stopReason(c.FinishReason)}
	if len(c.ToolCalls) > 0 {
		var blocks []written
		if c.Text != "" {
			blocks = append(blocks, text)
		}
		for i := range c.ToolCalls {
			call := &c.ToolCalls[i]
			input, err := canonical.AsWritten([]byte(cmp.Or(call.Arguments, "{}")))
			if err != nil || input[0] != '{' {
				return nil, errArguments
			}
			blocks = append(blocks, written{Type: "tool_use", ID: call.ID, Name: call.Name, Input: input})
		}
		r.Content, r.StopReason = blocks, "toolUse"
	}
	encoded, err := jsontext.Marshal(r)
	if err != nil {
		return nil, apierr.Internal(err)
	}
	return encoded, nil
}

// stopReason returns the protocol's name of a reason. Vendors don't say whether an answer ended by itself or at a sequence
// of the server's.
func stopReason(reason provider.FinishReason) string {
	switch reason {
	case provider.FinishLength:
		return "maxTokens"
	case provider.FinishToolCalls:
		return "toolUse"
	case provider.FinishContentFilter:
		return "contentFilter"
	case provider.FinishStop:
	}
	return "endTurn"
}
