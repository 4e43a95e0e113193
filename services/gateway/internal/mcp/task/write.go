package task

import (
	"encoding/json"
	"strconv"
	"time"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Shown is how a task is shown to its caller.
type Shown struct {
	// Kind is the resultType; empty for a notification.
	Kind string
	// ID is the one that the caller has of the task.
	ID string
	// Inputs are what the caller is asked for, with InputRequired.
	Inputs json.RawMessage
	// Meta is the _meta of a notification, in place of the server's; nil for a result.
	Meta json.RawMessage
}

// most bounds the times of a task that are passed on, in milliseconds.
const most = int64(Life / time.Millisecond)

// Append appends the task as its caller gets it. The server's id is in none of the members of the protocol; members that
// the gateway doesn't know are as the server wrote them.
func (t *Task) Append(out []byte, shown *Shown) []byte {
	out = append(out, '{')
	if shown.Kind != "" {
		out = append(jsontext.AppendText(append(out, `"resultType":`...), shown.Kind), ',')
	}
	out = jsontext.AppendText(append(out, `"taskId":`...), shown.ID)
	out = jsontext.AppendText(append(out, `,"status":`...), string(t.Status))
	if t.message != "" {
		out = jsontext.AppendText(append(out, `,"statusMessage":`...), cut(t.message))
	}
	out = append(append(out, `,"createdAt":`...), t.created...)
	out = append(append(out, `,"lastUpdatedAt":`...), t.updated...)
	out = strconv.AppendInt(append(out, `,"ttlMs":`...), min(t.ttl, most), 10)
	if t.poll >= 0 {
		out = strconv.AppendInt(append(out, `,"pollIntervalMs":`...), min(t.poll, most), 10)
	}
	if shown.Meta != nil {
		out = append(append(out, `,"_meta":`...), shown.Meta...)
	}
	for _, m := range t.more {
		value := m.value
		if m.name == "_meta" {
			if value = unrelated(value); shown.Meta != nil {
				continue
			}
		}
		out = append(append(jsontext.AppendText(append(out, ','), m.name), ':'), value...)
	}
	return append(t.appendPayload(out, shown), '}')
}

// appendPayload appends what belongs to the status.
func (t *Task) appendPayload(out []byte, shown *Shown) []byte {
	switch {
	case t.Status == InputRequired && shown.Inputs != nil:
		out = append(append(out, `,"inputRequests":`...), shown.Inputs...)
	case t.Result != nil:
		out = append(append(out, `,"result":`...), plain(t.Result)...)
	case t.Error != nil:
		out = strconv.AppendInt(append(out, `,"error":{"code":`...), t.Error.Code, 10)
		out = append(jsontext.AppendText(append(out, `,"message":`...), cut(t.Error.Message)), '}')
	}
	return out
}

// plain returns a result whose _meta doesn't name the server's task.
func plain(result json.RawMessage) json.RawMessage {
	return replaced(result, "_meta", func(meta []byte) []byte {
		if meta[0] != '{' {
			return meta
		}
		return unrelated(meta)
	})
}

// unrelated returns a _meta without the server's id of the task.
func unrelated(meta json.RawMessage) json.RawMessage {
	return replaced(meta, wire.MetaRelatedTask, func([]byte) []byte { return nil })
}

// replaced returns an object with another value of a member, or without the member where the value is nil. An object that
// doesn't have the member stays as it is written.
func replaced(object json.RawMessage, name string, by func(value []byte) []byte) json.RawMessage {
	found := false
	wire.Members(object, func(of string, _ []byte) bool {
		found = of == name
		return !found
	})
	if !found {
		return object
	}
	out := make([]byte, 0, len(object))
	out = append(out, '{')
	wire.Members(object, func(of string, value []byte) bool {
		if of == name {
			if value = by(value); value == nil {
				return true
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsontext.AppendText(out, of), ':'), value...)
		return true
	})
	return append(out, '}')
}
