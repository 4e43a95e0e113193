// Package dialect is what the compatible faces have in common: a chat in the
// words of another API's SDK, and the forms its answer may take. Its
// sub-packages' peers openai and anthropic read and write the words; package api
// serves them through the same pipeline as the gateway's own.
package dialect

import (
	"bytes"
	"net/http"

	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Extension is the field of a body, and the name before headers, with what only
// this gateway understands.
const Extension = "switchyard"

// Dialect is one API's words.
type Dialect interface {
	// Name of the dialect, as providers have it.
	Name() string
	// Chat reads a request. Its errors name the field.
	Chat(body []byte, header http.Header) (*Chat, error)
	// Answer writes a whole completion.
	Answer(reply Reply, completion *inference.Completion) ([]byte, error)
	// Stream writes one piece by piece.
	Stream(reply Reply) Stream
	// Models writes a list of models, Model one of them.
	Models(models []provider.Target) any
	Model(model provider.Target) any
}

// Chat is a request to answer a conversation.
type Chat struct {
	// Model asked for; empty leaves it to the policy.
	Model  string
	Stream bool
	// IncludeUsage asks for the usage at the end of a stream, where the dialect
	// leaves it out otherwise.
	IncludeUsage bool
	// Chat holds all that every dialect can carry, and the body itself.
	Chat provider.Chat
	// Only names the field because of which no other dialect can carry the
	// request; empty when every one can.
	Only string
	// Bounds are what the body says of the size and the price of its answer.
	Bounds inference.Bounds
	// Unknown are fields that no other dialect carries. They reach a provider of
	// this one, and the answer says so when it came from another.
	Unknown []string
	// Metadata are the caller's labels.
	Metadata map[string]string
	// Extension is the JSON of what only this gateway understands; may be nil.
	Extension []byte
	// Localize gives the body with an instruction put into the system's slot.
	Localize func(body []byte, instruction string) ([]byte, error)
}

// Reply is what an answer says of itself.
type Reply struct {
	// Model that served, by the name that the caller knows.
	Model string
	// IncludeUsage as the request has it.
	IncludeUsage bool
}

// Stream writes the events of one answer, as server-sent events that are ready
// to be sent. What its methods return is valid until the next call.
type Stream interface {
	// Event writes one event, or nothing yet.
	Event(event provider.Event) []byte
	// End writes what is left once the answer is complete and recorded.
	End(finish provider.FinishReason, report ledger.Report) []byte
	// Fail writes the error that ends a stream that has begun.
	Fail(err *apierr.Error, requestID string) []byte
	// Ping is an event that says nothing.
	Ping() []byte
}

// Open notes a field because of which no other dialect can carry the request, and
// the vendor may read more than the body holds: a file, a page, a search.
func (c *Chat) Open(field string) {
	c.Restrict(field)
	c.Bounds.OpenInput = true
}

// Surcharge notes a field because of which the vendor bills more than tokens at
// their list price.
func (c *Chat) Surcharge(field string) {
	c.Bounds.Surcharged = true
	if c.Bounds.Unpriced == "" {
		c.Bounds.Unpriced = screen.Path(field, ".")
	}
}

// Restrict notes that no other dialect can carry the request, because of a field,
// whose name may be the caller's own.
func (c *Chat) Restrict(field string) {
	if c.Only == "" {
		c.Only = screen.Path(field, ".")
	}
}

// Finish takes what is left of a request once its dialect has read the rest. The
// body is for a provider of the same dialect, without the extension.
func (c *Chat) Finish(o *Object, dialect string, body []byte) error {
	bounds, err := readBounds(o)
	if err != nil {
		return err
	}
	c.Bounds.Choices, c.Bounds.Output, c.Bounds.Thinking, c.Bounds.Extra = bounds.Choices, bounds.Output, bounds.Thinking, bounds.Extra
	c.Extension = o.Raw(Extension)
	c.Unknown = o.Rest()
	if c.Extension != nil {
		if body, err = sjson.DeleteBytes(bytes.Clone(body), Extension); err != nil {
			return apierr.Invalid(Extension, "can't be read")
		}
	}
	c.Chat.Native = &provider.Native{Dialect: dialect, Body: body}
	return nil
}

// Needs are what the request asks of a candidate.
func (c *Chat) Needs(name string) routing.Needs {
	var needs routing.Needs
	if c.Only != "" {
		needs.Dialect, needs.DialectField = name, c.Only
	}
	return needs
}
