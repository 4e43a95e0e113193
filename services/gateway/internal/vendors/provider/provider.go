// Package provider defines what a vendor adapter is: the dialect-neutral
// completion request and answer, the stream of events, disjoint usage buckets
// and the typed error. Adapters live in its sub-packages, one per wire dialect;
// package inference calls them. An adapter never retries and never fails over.
package provider

import (
	"context"
	"encoding/json"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// Provider is one configured vendor: a dialect, a base URL and its models. What
// it can do beyond that are the interfaces below. Implementations are safe for
// concurrent use and pass the conformance suite of package providertest.
type Provider interface {
	// Name as configuration gives it, for example "openai" or "my-vllm".
	Name() string
}

// ChatProvider is a provider of chat completions, with images in them for vision.
type ChatProvider interface {
	Provider
	// Chat asks for a whole answer.
	Chat(ctx context.Context, credential Credential, chat *Chat) (*Answer, error)
	// StreamChat returns once the vendor's response head has arrived. The caller
	// closes the stream; cancelling ctx ends the call upstream at once.
	StreamChat(ctx context.Context, credential Credential, chat *Chat) (Stream, error)
}

// ImageFetcher is a ChatProvider that says whether its vendor fetches the images that
// a message names by https URL. One that doesn't say so does; for one that
// doesn't fetch, images must be data: URIs, and a chat with another URL is
// refused as unsupported.
type ImageFetcher interface {
	ChatProvider
	FetchesImages() bool
}

// Embedder is a provider of embeddings.
type Embedder interface {
	Provider
	// Embed makes one vector per input, in order.
	Embed(ctx context.Context, credential Credential, request *Embedding) (*Vectors, error)
}

// ImageMaker is a provider of generated images.
type ImageMaker interface {
	Provider
	// MakeImages makes Count images, or fails as a whole.
	MakeImages(ctx context.Context, credential Credential, request *ImageRequest) (*Images, error)
}

// Stream is the answer as it arrives. Next returns io.EOF after the last event;
// any other error is an *Error. Not safe for concurrent use.
type Stream interface {
	Next() (Event, error)
	Close() error
	// Size is how many bytes of the stream have been read, whatever was in them.
	Size() int
}

// Credential is what a call authenticates with. The zero Key means that the
// provider needs none (a local server, the sandbox).
type Credential struct {
	Key secret.Value
	// Source is "fleet" or "byok".
	Source string
	// Fingerprint is a keyed hash of the key, safe to store and to show.
	Fingerprint string
}

// Role of a message.
type Role string

// The roles of the contract.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Chat is a completion request, free of any vendor's wire form.
type Chat struct {
	// Model by the vendor's own name.
	Model    string
	Messages []Message
	Tools    []Tool
	// ToolChoice is nil for the vendor's default.
	ToolChoice *ToolChoice
	// ResponseFormat is the contract's JSON: {"type":"json_object"} or a JSON schema. Nil means text.
	ResponseFormat json.RawMessage
	// MaxTokens bounds the output; 0 leaves it to the model's own limit.
	MaxTokens         int
	Temperature, TopP *float64
	Stop              []string
	Seed              *int64
	// ParallelTools allows several tool calls in one turn; nil for the vendor's default.
	ParallelTools *bool
	// Native is the request as the caller wrote it in a vendor's own dialect. A
	// provider of that dialect sends it as it is but for the model, and keeps the
	// frames of the answer; every other one goes by the fields above.
	Native *Native
}

// Native is a request body in the words of one dialect.
type Native struct {
	// Dialect that the body is written in, "openai" or "anthropic".
	Dialect string
	Body    json.RawMessage
	// Headers that belong to the body (for example anthropic-beta).
	Headers map[string]string
}

// Message is one turn of the conversation.
type Message struct {
	Role    Role
	Content []Part
	// ToolCalls that an assistant turn made.
	ToolCalls []ToolCall
	// ToolCallID names the call that a tool turn answers.
	ToolCallID string
	Name       string
}

// Text is the message's text parts put together.
func (m Message) Text() string {
	if len(m.Content) == 1 {
		return m.Content[0].Text
	}
	var text strings.Builder
	for _, part := range m.Content {
		text.WriteString(part.Text)
	}
	return text.String()
}

// Part is a piece of a message: text, or an image when ImageURL is set.
type Part struct {
	Text string
	// ImageURL is an https URL or a data: URI.
	ImageURL string
	// Detail is the vendor hint "low", "high" or "auto"; may be empty.
	Detail string
}

// Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	// Parameters is a JSON schema, exactly as the caller gave it.
	Parameters json.RawMessage
	Strict     bool
}

// ToolChoice says which tools the model may or must use.
type ToolChoice struct {
	// Mode is "auto", "none", "required" or "tool".
	Mode string
	// Name of the tool for mode "tool".
	Name string
}

// ToolCall is a call that the model made. In a stream it is a delta: Index is
// scoped to the stream, ID and Name come with the first delta of a call and
// Arguments are appended.
type ToolCall struct {
	Index     int
	ID, Name  string
	Arguments string
	// Extra is opaque provider state that must come back with the call.
	Extra json.RawMessage `json:",omitzero"`
}

// Event is one step of a stream. An event that carries text or tool calls is
// content-bearing; the last events carry the finish reason and usage.
type Event struct {
	Text string
	// Reasoning is thinking that the vendor shows. It proves that the model is at
	// work, and is content only on a face of the same dialect.
	Reasoning string
	ToolCalls []ToolCall
	// Other is what the model wrote into fields that have no other place here (a call
	// by an older form, a tool of the vendor's own, the words of what it speaks): it is
	// counted as output, and shown only within Native.
	Other        string `json:"-"`
	FinishReason FinishReason
	// Usage so far: it takes the place of an earlier event's. Before the finish
	// reason its output may be less than what has come.
	Usage *Usage
	// Native is the vendor's frame as it came: the data of one server-sent event,
	// and NativeType its event name. Set only for a request with Native that went
	// to its own dialect; then an event without it is not for the caller (usage
	// that only we asked for). The end mark of a dialect ("[DONE]") is no frame.
	// Valid until the next call of Next.
	Native     []byte
	NativeType string
}

// Content reports whether the event carries something that a reader would see.
func (e Event) Content() bool { return e.Text != "" || len(e.ToolCalls) > 0 }

// Output reports whether the event carries what the model wrote, shown or not.
func (e Event) Output() bool { return e.Content() || e.Reasoning != "" || e.Other != "" }

// FinishReason says why the model stopped.
type FinishReason string

// The finish reasons of the contract.
const (
	FinishStop          FinishReason = "stop"
	FinishLength        FinishReason = "length"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishContentFilter FinishReason = "content_filter"
)

// Answer is a whole completion.
type Answer struct {
	Text string
	// Reasoning that the vendor shows, and Other; see Event.
	Reasoning    string
	Other        string
	ToolCalls    []ToolCall
	FinishReason FinishReason
	// Usage is nil when the vendor reported none.
	Usage *Usage
	// Model as the vendor names what it ran; may be empty.
	Model string
	// Native is the vendor's whole answer as it came; see Chat.Native.
	Native json.RawMessage
	// Limits are what the vendor said is left of the rate limit.
	Limits Limits
}
