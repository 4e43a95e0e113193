package mcp

import (
	"encoding/json"
	"slices"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// log passes the log messages of a server on before the answer, as they are, if the request asks for them.
func (x *exchange) log() upstream.Log {
	if x.level == "" {
		return upstream.Log{}
	}
	return upstream.Log{Level: x.level, Receive: func(params json.RawMessage) {
		x.reply.notify(&wire.Message{Method: wire.MethodMessage, Params: slices.Clone(params)})
	}}
}
