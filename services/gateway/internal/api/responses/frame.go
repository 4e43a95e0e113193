package responses

import (
	"errors"
	"regexp"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// FrameType is the type of a message that a client sends on a WebSocket.
type FrameType string

// The types that are known.
const (
	// FrameCreate requests a response.
	FrameCreate FrameType = "response.create"
	// FrameCancel ends a response in flight. The vendor has no such message: its clients close the connection.
	FrameCancel FrameType = "response.cancel"
	// FrameSteer adds to a response in flight, which is not supported.
	FrameSteer FrameType = "response.steer"
	// FrameProcessed acknowledges a response; it has no effect.
	FrameProcessed FrameType = "response.processed"
)

// Frame is a message of a client on a WebSocket.
type Frame struct {
	Type FrameType
	// Stream names the lane in which requests are served one after another; empty for the default lane.
	Stream string
	// Response is the id of the response that a FrameCancel or a FrameSteer means; empty for that of the lane.
	Response string
	// WarmUp reports whether a FrameCreate only prepares for the next request: it makes no answer.
	WarmUp bool
	// Body is the request of a FrameCreate, as it would be sent to POST /v1/responses.
	Body []byte
}

// ErrNotJSON is the error of a frame that is not JSON in UTF-8.
var ErrNotJSON = errors.New("the frame is not JSON in UTF-8")

// streamID is the form of the names of lanes.
var streamID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,256}$`)

// ReadFrame parses a message. An error other than ErrNotJSON is the caller's; Stream is set as far as it is valid.
func ReadFrame(text []byte) (f Frame, err error) {
	switch {
	case !utf8.Valid(text):
		return f, ErrNotJSON
	case jsoncheck.TooDeep(text):
		return f, apierr.Invalid("body", jsoncheck.RuleDepth)
	case !jsoncheck.Valid(text):
		return f, ErrNotJSON
	}
	o, err := dialect.Members(text)
	if err != nil {
		return f, err
	}
	if f.Stream, err = readStream(o); err != nil {
		return f, err
	}
	var kind string
	if err := o.Take("type", &kind); err != nil {
		return f, err
	}
	switch f.Type = FrameType(kind); f.Type {
	case FrameCreate:
		return f, f.create(o, text)
	case FrameCancel:
		return f, o.Take("response_id", &f.Response)
	case FrameSteer:
		return f, o.Take("previous_response_id", &f.Response)
	case FrameProcessed:
		return f, nil
	}
	return f, apierr.Invalid("type", "must be response.create, response.cancel, response.processed or response.steer")
}

func readStream(o *dialect.Object) (string, error) {
	if !o.Has("stream_id") {
		return "", nil
	}
	var name string
	if err := o.Take("stream_id", &name); err != nil {
		return "", err
	}
	if !streamID.MatchString(name) {
		return "", apierr.Invalid("stream_id", "must be 1 to 256 letters, digits, underscores, dots or hyphens")
	}
	return name, nil
}

// create reads what a request has beside its body. A connection's answers are always streamed.
func (f *Frame) create(o *dialect.Object, text []byte) error {
	generate, background := true, false
	if err := errors.Join(o.Take("generate", &generate), o.Take("background", &background)); err != nil {
		return err
	}
	if background {
		return apierr.Invalid("background", "is not supported on a WebSocket; use POST /v1/responses")
	}
	f.WarmUp = !generate
	f.Body = append(make([]byte, 0, len(text)+len(streamed)), streamed...)
	gjson.ParseBytes(text).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type", "stream_id", "generate", "stream", "background":
		default:
			f.Body = append(append(append(append(f.Body, ','), key.Raw...), ':'), value.Raw...)
		}
		return true
	})
	f.Body = append(f.Body, '}')
	return nil
}

const streamed = `{"stream":true`
