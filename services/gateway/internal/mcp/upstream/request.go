package upstream

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// request is a request or, without an id, a notification.
type request struct {
	id     int64
	method string
	// name is what the request is about: a tool's name.
	name   string
	params json.RawMessage
	// arguments are mirrored into headers.
	arguments []argument
	// span is the traceparent of the request; empty for none.
	span string
}

// argument is an argument in a header.
type argument struct{ header, value string }

// response is a server's response.
type response struct {
	result json.RawMessage
	err    *wire.Error
	// status is the status of HTTP.
	status int
	// session is the session that the server opened; empty for none.
	session string
}

// number returns the request's id as JSON.
func (r *request) number() json.RawMessage { return strconv.AppendInt(nil, r.id, 10) }

// body returns the request as JSON.
func (r *request) body() []byte {
	m := wire.Message{Method: r.method, Params: r.params}
	if r.id != 0 {
		m.ID = r.number()
	}
	return m.Append(nil)
}

// object builds a JSON object. Its names need no escapes.
type object struct{ text []byte }

// add adds a member, unless its value is nil.
func (o *object) add(name string, value []byte) {
	if value == nil {
		return
	}
	separator := byte(',')
	if o.text == nil {
		separator = '{'
	}
	o.text = append(append(o.text, separator), '"')
	o.text = append(append(append(o.text, name...), '"', ':'), value...)
}

// addText adds a string, unless it is empty.
func (o *object) addText(name, value string) {
	if value != "" {
		o.add(name, jsontext.AppendText(nil, value))
	}
}

// end returns the object.
func (o *object) end() json.RawMessage {
	if o.text == nil {
		return json.RawMessage("{}")
	}
	return append(o.text, '}')
}

// about is what a request says beside its own parameters.
type about struct {
	// extra are members of _meta that the caller may set.
	extra map[string]json.RawMessage
	// capabilities are the client's; nil for none.
	capabilities json.RawMessage
	// token names the request in notices of its progress; 0 for none.
	token int64
	span  string
	// level is the least severe level of log messages that are wanted; empty for none.
	level string
}

// reservedMeta reports whether a member of _meta is the client's own, or must not leave the gateway.
func reservedMeta(name string) bool {
	switch name {
	case wire.MetaProgress, wire.MetaTraceParent, wire.MetaTraceState, wire.MetaBaggage:
		return true
	}
	return strings.HasPrefix(name, wire.MetaPrefix)
}

// meta returns the _meta of a request; nil for none.
func (c *Client) meta(s *session, a about) json.RawMessage {
	var o object
	for _, name := range slices.Sorted(maps.Keys(a.extra)) {
		if !reservedMeta(name) {
			quoted := jsontext.AppendText(nil, name)
			o.add(string(quoted[1:len(quoted)-1]), a.extra[name])
		}
	}
	if a.token != 0 {
		o.add(wire.MetaProgress, strconv.AppendInt(nil, a.token, 10))
	}
	o.addText(wire.MetaTraceParent, a.span)
	if s.modern {
		o.addText(wire.MetaLogLevel, a.level)
		o.addText(wire.MetaVersion, s.version)
		o.add(wire.MetaClientInfo, c.info())
		o.add(wire.MetaCapabilities, orEmpty(a.capabilities))
	}
	if o.text == nil {
		return nil
	}
	return o.end()
}

// info is how the client names itself.
func (c *Client) info() json.RawMessage {
	var o object
	o.addText("name", agent)
	o.addText("version", or(c.options.Version, "unknown"))
	return o.end()
}

func orEmpty(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("{}")
	}
	return value
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// newRequest returns a request with parameters and the session's _meta.
func (c *Client) newRequest(s *session, method string, params object, a about) *request {
	r := &request{id: c.ids.Add(1), method: method, span: a.span}
	if a.token != 0 {
		a.token = r.id
	}
	params.add("_meta", c.meta(s, a))
	r.params = params.end()
	return r
}
