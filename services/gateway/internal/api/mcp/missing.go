package mcp

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// missing returns a server's error that says that the request lacks a capability, if the caller lacks it, too; nil for
// any other error. What the caller can do and the gateway doesn't pass on is no fault of the caller.
func (x *exchange) missing(e *wire.Error) *wire.Error {
	if !x.modern || e.Code != wire.CodeMissingCapability || len(e.Data) > maxMessage {
		return nil
	}
	var required json.RawMessage
	wire.Members(e.Data, func(name string, value []byte) bool {
		if name == "requiredCapabilities" {
			required = value
		}
		return true
	})
	has := names(x.meta[wire.MetaCapabilities])
	lacks := false
	if required == nil || !wire.Members(required, func(name string, value []byte) bool {
		if lacks = !has[name]; name == memberExtensions && !lacks {
			lacks = x.lacksExtension(value)
		}
		return lacks
	}) || !lacks {
		return nil
	}
	data := append(append([]byte(`{"requiredCapabilities":`), required...), '}')
	return &wire.Error{Code: e.Code, Message: relayed(e).Message, Data: data}
}

// memberExtensions is the member of capabilities that has those of extensions.
const memberExtensions = "extensions"

// lacksExtension reports whether the caller lacks all extensions that are required.
func (x *exchange) lacksExtension(required []byte) bool {
	var declared json.RawMessage
	wire.Members(x.meta[wire.MetaCapabilities], func(name string, value []byte) bool {
		if name == memberExtensions {
			declared = value
		}
		return true
	})
	has, lacks := names(declared), false
	wire.Members(required, func(name string, _ []byte) bool {
		lacks = !has[name]
		return lacks
	})
	return lacks
}

// names returns the names of an object's first members.
func names(object json.RawMessage) map[string]bool {
	of := make(map[string]bool)
	wire.Members(object, func(name string, _ []byte) bool {
		of[name] = true
		return len(of) < maxMembers
	})
	return of
}
