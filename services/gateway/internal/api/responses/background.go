package responses

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/platform/apierr"
)

// The states of a response that is made in the background, beside those of any other.
const (
	statusQueued    = "queued"
	statusCancelled = "cancelled"
)

// Background reports whether the caller wants the response to be made in the background.
func (x *Exchange) Background() bool { return x.echo.Background }

// Resume makes the exchange that of a response that was queued earlier: with its id, the response that it continues and
// the time of its request.
func (x *Exchange) Resume(id, previous string, at time.Time) {
	x.ID, x.created, x.echo.Background = id, at, true
	if previous != "" {
		x.echo.PreviousResponseID = &previous
	}
	x.SetKeep(func(json.RawMessage) bool { return true }) // Its maker stores the last event's response.
}

// Queued returns a response that is queued, and the events of a stream that begins so, with the numbers 0 and 1.
func (x *Exchange) Queued(model string) (response json.RawMessage, events []byte) {
	x.echo.Store = true
	s := &stream{exchange: x, model: model}
	s.lifecycle("response.created", x.object(model, statusQueued))
	s.lifecycle("response.queued", x.object(model, statusQueued))
	_ = EachFrame(s.out, "", func(frame []byte) error {
		response = json.RawMessage(gjson.GetBytes(frame, "response").Raw)
		return nil
	})
	return response, s.out
}

// NumberedEvent appends an event with another number. frame is its JSON, with the type first.
func NumberedEvent(dst, frame []byte, n int) []byte {
	dst = append(append(append(dst, "event: "...), gjson.GetBytes(frame, "type").Str...), "\ndata: "...)
	number := gjson.GetBytes(frame, "sequence_number")
	if number.Index == 0 { // Servers that only resemble the vendor omit it.
		dst = append(dst, frame[:len(frame)-1]...)
		dst = strconv.AppendInt(append(dst, `,"sequence_number":`...), int64(n), 10)
		return append(dst, "}\n\n"...)
	}
	dst = strconv.AppendInt(append(dst, frame[:number.Index]...), int64(n), 10)
	dst = append(dst, frame[number.Index+len(number.Raw):]...)
	return append(dst, "\n\n"...)
}

// IsOver reports whether a response has come to its end.
func IsOver(response json.RawMessage) bool {
	status := gjson.GetBytes(response, "status").Str
	return status != statusQueued && status != statusInProgress
}

// IsBackground reports whether a response was made in the background.
func IsBackground(response json.RawMessage) bool {
	return gjson.GetBytes(response, "background").Bool()
}

// IsCancelled reports whether a response was cancelled.
func IsCancelled(response json.RawMessage) bool {
	return gjson.GetBytes(response, "status").Str == statusCancelled
}

// CheckEnded returns an error unless a response can be continued.
func CheckEnded(response json.RawMessage) error {
	switch {
	case !IsOver(response):
		return apierr.Invalid("previous_response_id", "that response is still being made")
	case IsCancelled(response):
		return apierr.Invalid("previous_response_id", "that response was cancelled")
	}
	return nil
}

// InProgress returns a queued response as one that is being made.
func InProgress(response json.RawMessage) (json.RawMessage, error) {
	return sjson.SetBytes(response, "status", statusInProgress)
}

// Cancelled returns a response that was cancelled.
func Cancelled(response json.RawMessage) (json.RawMessage, error) {
	return sjson.SetBytes(response, "status", statusCancelled)
}

// Begun returns the end of a response that was begun more than once, which it says.
func Begun(response json.RawMessage, attempts int) (json.RawMessage, error) {
	return sjson.SetBytes(response, dialect.Extension+".attempts", attempts)
}

// LastEvent appends the event that tells a reader of a response that was cancelled.
func LastEvent(dst []byte, response json.RawMessage, n int) []byte {
	frame := append([]byte(`{"type":"response.failed","response":`), response...)
	return NumberedEvent(dst, append(frame, '}'), n)
}
