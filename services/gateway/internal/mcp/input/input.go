// Package input is what tool servers ask of the clients that call them: to fill in a form or open a page (elicitation),
// to ask a model (sampling), and which folders they work in (roots). All of it is hostile text. What is put to a caller is
// rebuilt from what is known and allowed, and so is what the caller answers; no schema of a server is ever evaluated.
// Packages toolcall and api/mcp put it to callers, package upstream brings answers back.
package input

import (
	"encoding/json"
	"fmt"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Bounds of what a server asks at once.
const (
	// MaxRequests is how many requests there may be, and maxRequest how large one is, in bytes.
	MaxRequests = 16
	maxRequest  = 64 << 10
	// maxKey bounds the name of a request, in bytes.
	maxKey = 128
)

// Request is one thing that a server asks.
type Request struct {
	// Key is the server's name of the request; empty where it has none.
	Key string
	// Method is wire.MethodElicit, wire.MethodSample or wire.MethodRoots.
	Method string
	// Params are an object; nil for none.
	Params json.RawMessage
}

// Error is why something can't be put to a caller, or is no answer. It holds nothing of a server's text or a caller's.
type Error struct{ Field, Rule string }

// Error implements error.
func (e *Error) Error() string { return e.Field + ": " + e.Rule }

func refuse(field, rule string) *Error { return &Error{field, rule} }

// Read reads the requests of a result that requires input, by their names: an object. The error is an *Error.
func Read(requests json.RawMessage) ([]Request, error) {
	if len(requests) > MaxRequests*maxRequest {
		return nil, refuse("inputRequests", fmt.Sprintf("must have at most %d requests of %d bytes", MaxRequests, maxRequest))
	}
	if err := wire.Check(requests); err != nil {
		return nil, refuse("inputRequests", err.Error())
	}
	var all []Request
	var wrong error
	isObject := wire.Members(requests, func(key string, value []byte) bool {
		var r Request
		switch r, wrong = readOne(key, value); {
		case wrong != nil:
		case len(all) == MaxRequests:
			wrong = refuse("inputRequests", fmt.Sprintf("must have at most %d requests", MaxRequests))
		default:
			all = append(all, r)
		}
		return wrong == nil
	})
	if !isObject {
		return nil, refuse("inputRequests", "must be an object")
	}
	if wrong != nil {
		return nil, wrong
	}
	return all, nil
}

func readOne(key string, value []byte) (Request, error) {
	if key == "" || len(key) > maxKey {
		return Request{}, refuse("inputRequests", fmt.Sprintf("must have names of 1 to %d bytes", maxKey))
	}
	if len(value) > maxRequest {
		return Request{}, refuse("inputRequests", fmt.Sprintf("must have requests of at most %d bytes", maxRequest))
	}
	r := Request{Key: key}
	valid := wire.Members(value, func(name string, value []byte) bool {
		switch name {
		case "method":
			r.Method, _ = wire.Text(value)
		case "params":
			r.Params = value
		}
		return true
	})
	switch {
	case !valid:
		return Request{}, refuse("inputRequests", "must have objects with a method")
	case r.Params != nil && r.Params[0] != '{':
		return Request{}, refuse("inputRequests", "must have params that are objects")
	}
	switch r.Method {
	case wire.MethodElicit, wire.MethodSample, wire.MethodRoots:
		return r, nil
	}
	return Request{}, refuse("inputRequests", "must have the methods elicitation/create, sampling/createMessage or roots/list")
}

// Encode returns requests as a result has them, by their names. Each has parameters: clients that know no request without
// any can't read the whole result.
func Encode(requests []Request) json.RawMessage {
	out := []byte{'{'}
	for i := range requests {
		r := &requests[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendText(out, r.Key), `:{"method":`...)
		out = append(jsontext.AppendText(out, r.Method), `,"params":`...)
		out = append(append(out, orEmpty(r.Params)...), '}')
	}
	return append(out, '}')
}

// orEmpty returns a value, or an empty object for none.
func orEmpty(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("{}")
	}
	return value
}
