// Package provider defines the interfaces of vendor adapters: the dialect-neutral completion request and answer, the
// stream of events, disjoint usage buckets and the typed error. Adapters are in its sub-packages, one for each wire
// dialect; package inference calls them. An adapter never retries and never fails over.
package provider

import (
	"context"
	"encoding/json"
	"strings"
)

// Provider is one configured vendor: a dialect, a base URL and its models. The interfaces below are its operations.
// Implementations are safe for concurrent use and pass the conformance suite of package providertest.
type Provider interface {
	// Name returns the name in the configuration, for example "openai" or "my-vllm".
	Name() string
}

// ChatProvider is a provider of chat completions, also with images in them (vision).
type ChatProvider interface {
	Provider
	// Chat requests a whole answer.
	Chat(ctx context.Context, credential Credential, chat *Chat) (*Answer, error)
	// StreamChat returns once the vendor's response head has arrived. The caller must close the stream; canceling ctx
	// ends the vendor's call at once.
	StreamChat(ctx context.Context, credential Credential, chat *Chat) (Stream, error)
}

// ImageFetcher is a ChatProvider that reports whether its vendor fetches images that a message names by https URL. A
// provider without this interface does. For one that reports false, images must be data: URIs, and a chat with another
// URL is refused as unsupported.
type ImageFetcher interface {
	ChatProvider
	FetchesImages() bool
}

// DocumentFetcher is a ChatProvider that reports whether its vendor itself fetches the document at an https URL in a
// message. A provider without this interface refuses a chat with such a URL as unsupported.
type DocumentFetcher interface {
	ChatProvider
	FetchesDocument(url string) bool
}

// TokenCounter is a ChatProvider whose vendor counts the tokens of a conversation without answering it, for nothing.
type TokenCounter interface {
	ChatProvider
	// CountTokens returns the input tokens of a chat in the provider's own dialect.
	CountTokens(ctx context.Context, credential Credential, chat *Chat) (int64, error)
}

// Embedder is a provider of embeddings.
type Embedder interface {
	Provider
	// Embed returns one vector for each input, in order.
	Embed(ctx context.Context, credential Credential, request *Embedding) (*Vectors, error)
}

// ImageMaker is a provider of generated images.
type ImageMaker interface {
	Provider
	// MakeImages returns Count images, or an error.
	MakeImages(ctx context.Context, credential Credential, request *ImageRequest) (*Images, error)
}

// Stream is an answer that arrives in events. Next returns io.EOF after the last event; any other error is an *Error.
// Not safe for concurrent use.
type Stream interface {
	// Next returns the next event. It waits for the vendor only if no event is buffered, and returns an event that
	// carries nothing rather than wait after a frame without content.
	Next() (Event, error)
	// Buffered reports whether Next returns without waiting for the vendor.
	Buffered() bool
	Close() error
	// Size returns the number of bytes of the stream that have been read, including those without content.
	Size() int
}

// Role is the role of a message.
type Role string

// The roles of the contract.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Chat is a completion request, independent of any vendor's wire format.
type Chat struct {
	// Model is the vendor's own name of the model.
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
	// Seed makes an answer repeatable, as far as the vendor can.
	Seed *int64
	// PresencePenalty and FrequencyPenalty make tokens less likely that are in the answer already.
	PresencePenalty  *float64 `json:",omitzero"`
	FrequencyPenalty *float64 `json:",omitzero"`
	// Verbosity is how long the answer is to be: "low", "medium" or "high"; empty for the vendor's default.
	Verbosity string `json:",omitzero"`
	// EndUser names who is served by the caller, for the vendor's detection of abuse; may be empty. A provider gets a
	// pseudonym.
	EndUser string `json:",omitzero"`
	// CacheKey groups requests that begin alike, for the vendor's prompt cache; may be empty.
	CacheKey string `json:",omitzero"`
	// Reasoning is how much the model is to think; nil leaves it to the model.
	Reasoning *Reasoning
	// ParallelTools allows several tool calls in one turn; nil for the vendor's default.
	ParallelTools *bool
	// Native is the request as the caller wrote it in a vendor's own dialect. A provider of that dialect sends it
	// unchanged except for the model, and keeps the frames of the answer; every other provider uses the fields above.
	Native *Native
}

// WithoutNames returns the error of a vendor that has no names of participants, or nil if the request has none. The names
// of tools' results are no such names.
func (c *Chat) WithoutNames() error {
	for i := range c.Messages {
		if m := &c.Messages[i]; m.Name != "" && m.Role != RoleTool {
			return Unsupported("messages[].name", "this provider has no names of participants")
		}
	}
	return nil
}

// Native is a request body in a vendor's dialect.
type Native struct {
	// Dialect is the dialect of the body, such as "openai", "responses" or "anthropic".
	Dialect string
	Body    json.RawMessage
	// Headers are headers that belong to the body (for example anthropic-beta).
	Headers map[string]string
}

// Message is one turn of the conversation.
type Message struct {
	Role    Role
	Content []Part
	// ToolCalls are the calls made by an assistant turn.
	ToolCalls []ToolCall
	// ToolCallID is the ID of the call that a tool turn answers.
	ToolCallID string
	Name       string
	// Reasoning is an assistant turn's thinking that the caller was shown and sends back outside of a call's state. Few
	// vendors accept it; see HintReasoning.
	Reasoning string `json:",omitzero"`
}

// Text returns the message's texts joined. An assistant's texts are pieces of one text, which Anthropic splits at
// citations, and are concatenated. Texts of other roles are separate, and each begins on a new line.
func (m Message) Text() string {
	if len(m.Content) == 1 {
		return m.Content[0].Text
	}
	var text strings.Builder
	for _, part := range m.Content {
		if m.Role != RoleAssistant && part.Text != "" && text.Len() > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(part.Text)
	}
	return text.String()
}

// Part is a piece of a message: text, an image if ImageURL is set, or a document if File is.
type Part struct {
	Text string
	// File is a document, such as a PDF.
	File *File `json:",omitzero"`
	// ImageURL is an https URL or a data: URI.
	ImageURL string
	// Detail is the vendor hint "low", "high" or "auto"; may be empty.
	Detail string
	// Cache ends a prefix of the conversation that the vendor is to keep in its prompt cache; empty for none.
	Cache CacheLife `json:",omitzero"`
	// Field is the path of the image or the document in the request as its caller wrote it; empty for that of the contract.
	Field string `json:"-"`
}

// CacheLife is how long a prefix of a conversation is kept in a vendor's prompt cache.
type CacheLife string

// The lifes that vendors of cache points have.
const (
	CacheShort CacheLife = "5m"
	CacheLong  CacheLife = "1h"
)

// CacheLifeOf returns the life that is nearest to a time as vendors write it ("5m", "30m", "1h", "12h"); CacheShort where
// none is given.
func CacheLifeOf(ttl string) CacheLife {
	if strings.HasSuffix(ttl, "h") {
		return CacheLong
	}
	return CacheShort
}

// File is a document in a message.
type File struct {
	// Name is a hint for the model; may be empty.
	Name string
	// URL is an https URL or a data: URI in base64.
	URL string
}

// Data returns the media type and the base64 text of a data: URI (RFC 2397); false for another URL.
func (f *File) Data() (kind, data string, ok bool) {
	rest, isData := strings.CutPrefix(f.URL, "data:")
	kind, data, isBase64 := strings.Cut(rest, ";base64,")
	return kind, data, isData && isBase64
}

// Tool is a function that the model may call.
type Tool struct {
	Name, Description string
	// Parameters is a JSON schema, exactly as the caller gave it.
	Parameters json.RawMessage
	Strict     bool
}

// ToolChoice is which tools the model may or must use.
type ToolChoice struct {
	// Mode is "auto", "none", "required" or "tool".
	Mode string
	// Name is the tool's name for mode "tool".
	Name string
}

// ToolCall is a call that the model made. In a stream it is a delta: Index is scoped to the stream, ID and Name come
// with the first delta of a call, and Arguments are appended.
type ToolCall struct {
	Index     int
	ID, Name  string
	Arguments string
	// Extra is opaque provider state that must be sent back with the call.
	Extra json.RawMessage `json:",omitzero"`
}

// Event is one step of a stream. An event with text or tool calls has content; the last events carry the finish reason
// and the usage.
type Event struct {
	Text string
	// Reasoning is thinking that the vendor shows. It proves that the model is working, and is content only on a face
	// of the same dialect.
	Reasoning string
	ToolCalls []ToolCall
	// Citations are sources of the text so far. Images are complete images that the model generated, each as a data:
	// URI or an https URL.
	Citations []Citation `json:",omitzero"`
	Images    []string   `json:",omitzero"`
	// Other is what the model wrote into fields without a place here (a call of an older format, a vendor's own tool,
	// the transcript of audio). It counts as output, and is shown only within Native.
	Other        string `json:"-"`
	FinishReason FinishReason
	// Usage is the usage so far: it replaces that of an earlier event. Before the finish reason its output may be less
	// than what has been received.
	Usage *Usage
	// Native is the vendor's frame as it was received: the data of one server-sent event, and NativeType its event
	// name. They are set only for a request with Native that was sent to its own dialect; then an event without Native
	// is not for the caller (usage that only the gateway asked for). The end mark of a dialect ("[DONE]") is not a
	// frame. Valid until the next call of Next.
	Native     []byte
	NativeType string
	// Repeated are the names of calls that Native repeats just as earlier events had them.
	Repeated []string `json:"-"`
}

// Content reports whether the event carries something that a reader would see.
func (e Event) Content() bool { return e.Text != "" || len(e.ToolCalls) > 0 || len(e.Images) > 0 }

// Output reports whether the event carries anything that the model wrote, shown or not.
func (e Event) Output() bool { return e.Content() || e.Reasoning != "" || e.Other != "" }

// Empty reports whether the event carries nothing.
func (e Event) Empty() bool {
	return !e.Output() && len(e.Citations) == 0 && e.FinishReason == "" && e.Usage == nil && e.Native == nil
}

// Shown reports whether the caller may see the event: it has content or citations, or it is a vendor's frame, which a
// face of the same dialect relays.
func (e Event) Shown() bool { return e.Content() || len(e.Citations) > 0 || e.Native != nil }

// Answer is a whole completion.
type Answer struct {
	Text string
	// Reasoning and Other are as in Event.
	Reasoning string
	Other     string
	ToolCalls []ToolCall
	// Citations and Images are as in Event.
	Citations    []Citation
	Images       []string
	FinishReason FinishReason
	// Usage is nil if the vendor reported none.
	Usage *Usage
	// Model is the vendor's name of the model that it ran; may be empty.
	Model string
	// Native is the vendor's whole answer as it was received; see Chat.Native.
	Native json.RawMessage
	// Limits are what the vendor reported as left of the rate limit.
	Limits Limits
}

// Written returns how many bytes the model wrote, shown or not.
func (a *Answer) Written() int {
	n := len(a.Text) + len(a.Reasoning) + len(a.Other)
	for i := range a.ToolCalls {
		n += len(a.ToolCalls[i].Name) + len(a.ToolCalls[i].Arguments)
	}
	return n
}
