package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// setLevel answers logging/setLevel, which a session keeps.
func (x *exchange) setLevel(ctx context.Context) {
	level := -1
	wire.Members(x.params(), func(name string, value []byte) bool {
		if name == "level" {
			text, _ := wire.Text(value)
			level = wire.Level(text)
		}
		return true
	})
	if level < 0 {
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: "params.level: must be a level of RFC 5424, such as warning"}, http.StatusBadRequest)
		return
	}
	if err := x.handler.Sessions.SetLevel(ctx, x.session, level); err != nil {
		x.refuse(err)
		return
	}
	x.result(struct{}{})
}

// log passes the log messages of a server on before the answer, as they are, if the request or its session asks for
// them.
func (x *exchange) log() upstream.Log {
	if x.level == "" {
		return upstream.Log{}
	}
	return upstream.Log{Level: x.level, Receive: func(params json.RawMessage) {
		x.reply.notify(&wire.Message{Method: wire.MethodMessage, Params: slices.Clone(params)})
	}}
}
