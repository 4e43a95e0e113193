package responses

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// relay forwards a vendor's event. The response object in lifecycle events becomes the gateway's: the state is kept here
// and not at the vendor. The terminal event waits for End.
func (s *stream) relay(e provider.Event) {
	s.relayed, s.begun = true, true
	name := e.NativeType
	if name == "" { // Servers that only resemble the vendor omit it; clients depend on it.
		name = gjson.GetBytes(e.Native, "type").Str
	}
	switch name {
	case "response.created", "response.queued", "response.in_progress":
		s.frame = s.exchange.ownEvent(s.frame[:0], e.Native, s.model)
		s.out = dialect.AppendData(s.out, name, s.frame)
	case "response.completed", "response.incomplete", "response.failed":
		s.lastName, s.last = name, bytes.Clone(e.Native)
	default:
		s.out = dialect.AppendData(s.out, name, e.Native)
	}
	s.sequence++
}

// endRelay writes the terminal event, once the response is stored.
func (s *stream) endRelay() {
	if s.last == nil {
		return
	}
	response := gjson.GetBytes(s.last, "response")
	if s.lastName != "response.failed" {
		_, _ = s.exchange.kept(func() (json.RawMessage, error) { // It only decides what the event says of the store.
			return s.exchange.ownObject(nil, response, s.model), nil
		})
	}
	s.out = dialect.AppendData(s.out, s.lastName, s.exchange.ownEvent(nil, s.last, s.model))
}

// ownEvent appends a lifecycle event whose response is the gateway's.
func (x *Exchange) ownEvent(dst, frame []byte, model string) []byte {
	response := gjson.GetBytes(frame, "response")
	if !response.IsObject() || response.Index == 0 {
		return append(dst, frame...)
	}
	dst = append(dst, frame[:response.Index]...)
	dst = x.ownObject(dst, response, model)
	return append(dst, frame[response.Index+len(response.Raw):]...)
}

// ownObject appends a vendor's response object with the members that the gateway answers for, and without the credentials
// of tools' servers that the vendor repeats.
func (x *Exchange) ownObject(dst []byte, response gjson.Result, model string) []byte {
	dst = jsontext.AppendText(append(dst, `{"id":`...), x.ID)
	dst = jsontext.AppendText(append(dst, `,"model":`...), model)
	dst = strconv.AppendBool(append(dst, `,"store":`...), x.echo.Store)
	dst = strconv.AppendBool(append(dst, `,"background":`...), x.echo.Background)
	dst = append(dst, `,"previous_response_id":`...)
	if x.echo.PreviousResponseID != nil {
		dst = jsontext.AppendText(dst, *x.echo.PreviousResponseID)
	} else {
		dst = append(dst, "null"...)
	}
	response.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "id", "model", "store", "background", "previous_response_id":
		case "tools", "prompt":
			dst = append(append(append(dst, ','), key.Raw...), ':')
			dst = append(dst, redact.ServerCredentials([]byte(value.Raw))...)
		default:
			dst = append(append(append(append(dst, ','), key.Raw...), ':'), value.Raw...)
		}
		return true
	})
	return append(dst, '}')
}
