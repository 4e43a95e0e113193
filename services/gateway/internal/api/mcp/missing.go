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
	has := make(map[string]bool)
	wire.Members(x.meta[wire.MetaCapabilities], func(name string, _ []byte) bool {
		has[name] = true
		return len(has) < maxMembers
	})
	lacks := false
	if required == nil || !wire.Members(required, func(name string, _ []byte) bool {
		lacks = !has[name]
		return lacks
	}) || !lacks {
		return nil
	}
	data := append(append([]byte(`{"requiredCapabilities":`), required...), '}')
	return &wire.Error{Code: e.Code, Message: relayed(e).Message, Data: data}
}
