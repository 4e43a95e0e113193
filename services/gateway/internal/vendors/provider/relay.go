package provider

import (
	"context"
	"encoding/json"
)

// Relay is a call of a vendor's API that passes as its caller wrote it, but for the model. The contract has no form of
// its own for such a call.
type Relay struct {
	Operation Operation
	// API is the API that the call is of, one of those of Dialect.Relays. Path is its place below the base URL, such as
	// "/audio/speech".
	API, Path string
	// Model is the vendor's own name of the model.
	Model string
	// Body is a JSON object. Parts replace it for a form of several parts (RFC 7578). An adapter sets the fields "model"
	// and "stream" itself.
	Body  json.RawMessage
	Parts []FormPart
	// Media are the URLs that the vendor fetches.
	Media []Media
	// Stream reports whether the answer is requested as events.
	Stream bool
	// Estimate is the usage that is billed where the vendor reports none, and Most the largest that it can report.
	Estimate, Most Usage
	// OutputLimit is the output limit of each answer in tokens, and Answers how many answers are requested; Most.Output
	// contains their product. Both are 0 for calls without an output limit.
	OutputLimit, Answers int64
}

// Media is a URL of an image, a video, a recording or a document in a field of a relayed call.
type Media struct{ Field, URL string }

// FormPart is a part of a form: a field or a file.
type FormPart struct {
	// Name of the field. FileName and ContentType are those of a file; empty for a field.
	Name, FileName, ContentType string
	Data                        []byte
}

// Relayer is a provider to which calls are relayed.
type Relayer interface {
	Provider
	// Relay makes a call and returns once the vendor's response head has arrived, or the whole answer if that is JSON or
	// text.
	Relay(ctx context.Context, credential Credential, call *Relay) (RelayStream, error)
}

// RelayStream is the answer to a relayed call. Native of its events is the data of an event, or for another kind of
// answer the next piece of it: all of it where the answer was read whole.
type RelayStream interface {
	Stream
	// ContentType returns the answer's media type.
	ContentType() string
	// Whole reports whether the answer was read whole.
	Whole() bool
}
