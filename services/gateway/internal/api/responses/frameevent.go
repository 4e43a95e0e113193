package responses

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/platform/apierr"
)

// EachFrame calls send with the frame of each of some server-sent events: the event's JSON, with its type first and the
// name of its lane, if it has one. Comments have no frame. A frame is valid until send returns.
func EachFrame(events []byte, stream string, send func(frame []byte) error) error {
	var frame, data []byte
	for len(events) > 0 {
		var event, name []byte
		event, events, _ = bytes.Cut(events, []byte("\n\n"))
		data = data[:0]
		for line := range bytes.SplitSeq(event, []byte{'\n'}) {
			if text, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
				name = text
			} else if text, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				data = append(append(data, text...), '\n')
			}
		}
		if len(data) == 0 {
			continue
		}
		frame = appendFrame(frame[:0], name, data[:len(data)-1], stream)
		if err := send(frame); err != nil {
			return err
		}
	}
	return nil
}

// appendFrame appends the frame of an event. Its reader learns the type from its beginning, whatever a vendor's order is.
func appendFrame(dst, name, data []byte, stream string) []byte {
	begin := len(dst)
	dst = append(append(append(dst, `{"type":"`...), name...), '"')
	rest, first := bytes.CutPrefix(data, dst[begin:])
	if stream != "" {
		dst = append(append(append(dst, `,"stream_id":"`...), stream...), '"')
	}
	if first && bytes.HasPrefix(rest, []byte{','}) {
		return append(dst, rest...)
	}
	gjson.ParseBytes(data).ForEach(func(key, value gjson.Result) bool {
		if key.Str != "type" && key.Str != "stream_id" {
			dst = append(append(append(append(dst, ','), key.Raw...), ':'), value.Raw...)
		}
		return true
	})
	return append(dst, '}')
}

// frameError is an error that is no part of a response, in the forms of HTTP and of the API's error event: clients differ
// in which of them they read.
type frameError struct {
	Type     string          `json:"type"`
	Stream   string          `json:"stream_id,omitempty"`
	Status   int             `json:"status"`
	Code     string          `json:"code"`
	Message  string          `json:"message"`
	Param    *string         `json:"param"`
	Sequence int             `json:"sequence_number"`
	Headers  frameHeaders    `json:"headers"`
	Error    json.RawMessage `json:"error"`
}

// frameHeaders are those that the error would have over HTTP.
type frameHeaders struct {
	RequestID   string `json:"x-request-id,omitempty"`
	RetryAfter  string `json:"retry-after,omitempty"`
	ShouldRetry string `json:"x-should-retry,omitempty"`
}

// ErrorFrame returns the frame of a request that was refused, or of a failure of the connection.
func ErrorFrame(e *apierr.Error, stream, requestID string) []byte {
	shown := *e
	shown.Text = failureText(e)
	body, _ := jsontext.Marshal(openai.ErrorBody(&shown, requestID)) // It holds texts and numbers only.
	frame := frameError{
		Type: "error", Stream: stream, Status: e.Kind.HTTPStatus(), Code: openai.ErrorCode(e), Message: shown.Text,
		Headers: frameHeaders{RequestID: requestID}, Error: json.RawMessage(gjson.GetBytes(body, "error").Raw),
	}
	if field := e.Field(); field != "" {
		frame.Param = &field
	}
	if seconds := e.RetryAfterSeconds(); seconds > 0 {
		frame.Headers.RetryAfter = strconv.Itoa(seconds)
	}
	if !e.ErrorClass().Retryable() {
		frame.Headers.ShouldRetry = "false"
	}
	text, _ := jsontext.Marshal(frame)
	return text
}

// steerFailed is the answer to a FrameSteer.
type steerFailed struct {
	Type     string  `json:"type"`
	Stream   string  `json:"stream_id,omitempty"`
	Previous string  `json:"previous_response_id,omitempty"`
	Error    failure `json:"error"`
}

// SteerFailed returns the frame that refuses to steer a response.
func SteerFailed(f Frame) []byte {
	text, _ := jsontext.Marshal(steerFailed{ // It holds texts only.
		"response.steer.failed", f.Stream, f.Response,
		failure{"steering_not_supported", "A response in flight can't be steered. Cancel it, or send another request."},
	})
	return text
}

// WarmUp returns the events of a request that makes no answer: a response without output, which counts no tokens. It is
// stored as any other.
func (x *Exchange) WarmUp(model string) ([]byte, error) {
	s := &stream{exchange: x, model: model}
	s.lifecycle("response.created", x.object(model, statusInProgress))
	r := x.object(model, statusCompleted)
	r.Usage, r.CompletedAt = toUsage(ledger.Report{}), new(x.created.Unix())
	text, err := x.kept(func() (json.RawMessage, error) {
		r.echo = x.echo
		return jsontext.Marshal(r)
	})
	if err != nil {
		return nil, err
	}
	s.event("response.completed", func(out []byte) []byte {
		return append(append(out, `,"generate":false,"response":`...), text...)
	})
	return s.out, nil
}
