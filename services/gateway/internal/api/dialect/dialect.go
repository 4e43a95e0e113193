// Package dialect defines what the compatible faces have in common: a chat in the form of another API's SDK, and the
// forms of its answer. Packages openai, anthropic, responses and gemini implement the forms; package api serves them
// through the same pipeline as the gateway's own.
package dialect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Extension is the body field, and part of the header names, for what only this gateway supports.
const Extension = "switchyard"

// Dialect is the wire form of one API.
type Dialect interface {
	// Name returns the dialect's name, which providers of the dialect have too.
	Name() string
	// Chat parses a request. Its errors name the field.
	Chat(body []byte, header http.Header) (*Chat, error)
	// Fields returns the fields of a request that the face knows, by which Chat reads it.
	Fields() Fields
}

// Writer writes the answer to one request.
type Writer interface {
	// Answer returns a whole completion.
	Answer(reply Reply, completion *inference.Completion) ([]byte, error)
	// Stream returns a writer of a streamed completion.
	Stream(reply Reply) Stream
}

// Lister writes lists of models.
type Lister interface {
	// Models returns a list of models, Model one entry of it.
	Models(models []provider.Target) any
	Model(model provider.Target) any
}

// Chat is a parsed request for a chat completion.
type Chat struct {
	// Model that was asked for; empty leaves it to the policy.
	Model  string
	Stream bool
	// IncludeUsage requests the usage at the end of a stream, where the dialect omits it otherwise.
	IncludeUsage bool
	// Chat holds everything that every dialect can carry, and the body itself.
	Chat provider.Chat
	// Only is the field because of which no other dialect can carry the request; empty if every one can.
	Only string
	// Bounds are what the body sets for the size and the price of its answer.
	Bounds inference.Bounds
	// Hints are the fields that no answer depends on, with those that the face doesn't know. They reach a provider of this
	// dialect; the answer of another names those that it didn't get.
	Hints []provider.HintField
	// BoundTo lists the providers that made reasoning in the request which only they can read. Another provider of the
	// dialect does without.
	BoundTo []string
	// BoundElsewhere names a field with reasoning that providers of this dialect don't get; empty if there is none. An
	// answer relayed from such a provider names the field as ignored.
	BoundElsewhere string
	// Compacted is the part of the conversation that a provider has in a shorter form of its own.
	Compacted routing.Compacted
	// Metadata holds the caller's labels.
	Metadata map[string]string
	// Extension is the JSON of what only this gateway supports; may be nil.
	Extension []byte
	// Localize returns the body with an instruction in the system prompt.
	Localize func(body []byte, instruction string) ([]byte, error)
	// Writer writes the answer.
	Writer Writer
	// Reasoning reports whether the answer has a place for the reasoning of a model of any dialect.
	Reasoning bool
	// Images reports whether the answer has a place for images that the model generates.
	Images bool
	// Keeps reports whether the writer keeps a streamed answer until its end.
	Keeps bool
	// Stored reports whether the answer is stored for later requests.
	Stored bool
}

// Reply is what an answer says of itself.
type Reply struct {
	// Model that served, by the name that the caller used.
	Model string
	// IncludeUsage as in the request.
	IncludeUsage bool
}

// Stream writes the events of one answer as server-sent events, ready to be sent. What its methods return is valid
// until the next call.
type Stream interface {
	// Event returns one event, or nothing yet.
	Event(event provider.Event) []byte
	// End returns what is left once the answer is complete and recorded.
	End(finish provider.FinishReason, report ledger.Report) []byte
	// Fail returns the error event that ends a stream that has begun.
	Fail(err *apierr.Error, requestID string) []byte
	// Ping returns an event without content.
	Ping() []byte
}

// Open records a field because of which no other dialect can carry the request and the vendor may read more than the
// body holds: a file, a page, a search.
func (c *Chat) Open(field string) {
	c.Restrict(field)
	c.Bounds.OpenInput = true
}

// Offer records a field that offers the model a tool of the vendor's own, which only a provider that takes the body as it
// came can carry. Others serve without it, and their answer names it as ignored.
func (c *Chat) Offer(field, tool string) {
	if c.Bounds.Offered == "" {
		c.Bounds.Offered = screen.Path(field, ".") + ": " + tool
	}
	c.Ignores("tools." + tool)
}

// Surcharge records a field because of which the vendor bills more than tokens at their list price.
func (c *Chat) Surcharge(field string) {
	c.Bounds.Surcharged = true
	if c.Bounds.Unpriced == "" {
		c.Bounds.Unpriced = screen.Path(field, ".")
	}
}

// Think sets how much the model is to think. An effort that isn't known is for a provider of the dialect only.
func (c *Chat) Think(field string, r provider.Reasoning) {
	if r.Effort != "" && !r.Effort.IsKnown() {
		c.Restrict(field)
		return
	}
	c.Chat.Reasoning = &r
}

// Bound records a provider that made reasoning in the request which only it can read.
func (c *Chat) Bound(name string) {
	if !slices.Contains(c.BoundTo, name) && len(c.BoundTo) < maxBound {
		c.BoundTo = append(c.BoundTo, name)
	}
}

// states lists the kinds of opaque state in tool calls, by the member that holds each.
var states = []struct {
	name string
	hint provider.Hint
}{
	{"anthropic", provider.HintSignedThinking}, {"google", provider.HintThoughtSignature}, {"openai", provider.HintReasoning},
}

// State records a tool call's opaque state, found in field, as a hint: only some dialects can carry it. own is the
// member whose state providers of the face's dialect get unchanged, so it is not recorded; empty for none.
func (c *Chat) State(field string, state json.RawMessage, own string) {
	if len(state) == 0 {
		return
	}
	for _, kind := range states {
		found := gjson.GetBytes(state, kind.name)
		if !found.Exists() || kind.name == own {
			continue
		}
		c.hint(provider.HintField{Kind: kind.hint, Name: field, By: found.Get("provider").Str})
		c.BoundElsewhere = field
	}
}

// Thought records that field holds plain-text reasoning from an earlier answer of this gateway. calls are the tool
// calls that the reasoning led to.
func (c *Chat) Thought(field string, calls []provider.ToolCall) {
	hint := provider.HintField{Kind: provider.HintReasoning, Name: field}
	for i := range calls {
		if maker := gjson.GetBytes(calls[i].Extra, "openai.provider"); maker.Str != "" {
			hint.By = maker.Str
			break
		}
	}
	c.hint(hint)
	c.BoundElsewhere = field
}

// maxBound bounds the providers of BoundTo: callers can make names up.
const maxBound = 16

// Demand records a field that requires a tool of the vendor's own.
func (c *Chat) Demand(field, tool string) {
	if c.Only == "" {
		c.Only = screen.Path(field, ".") + ": " + tool
	}
	c.Open(field)
	c.Surcharge(field)
}

// Restrict records a field, whose name may be the caller's own, because of which no other dialect can carry the
// request.
func (c *Chat) Restrict(field string) {
	if c.Only == "" {
		c.Only = screen.Path(field, ".")
	}
}

// Finish reads the rest of a request after its dialect has read its own part. The body is for a provider of the same
// dialect, without the extension.
func (c *Chat) Finish(o *Object, dialect string, body []byte) error {
	bounds, err := readBounds(o)
	if err != nil {
		return err
	}
	c.Bounds.Choices, c.Bounds.Output, c.Bounds.Thinking, c.Bounds.Extra = bounds.Choices, bounds.Output, bounds.Thinking, bounds.Extra
	c.Bounds.LimitField = bounds.LimitField
	c.Extension = o.Raw(Extension)
	if c.Extension != nil {
		if body, err = sjson.DeleteBytes(bytes.Clone(body), Extension); err != nil {
			return apierr.Invalid(Extension, "can't be read")
		}
	}
	c.Chat.Native = &provider.Native{Dialect: dialect, Body: body}
	return nil
}

// Needs returns what a finished request requires of a candidate.
func (c *Chat) Needs() routing.Needs {
	var needs routing.Needs
	name := c.Chat.Native.Dialect
	if c.Only != "" {
		needs.Dialect, needs.DialectField = name, c.Only
	}
	needs.Form, needs.Offered, needs.Compacted = name, c.Bounds.Offered, c.Compacted
	return needs
}
