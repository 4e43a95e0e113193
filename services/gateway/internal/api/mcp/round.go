package mcp

import (
	"net/http"
	"strconv"

	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// client returns what the caller can be asked, and what it brings of the round before. It answers a request whose members
// break a rule, and returns false.
func (x *exchange) client() (toolcall.Client, bool) {
	if !x.modern {
		return x.live(), true
	}
	c := toolcall.Client{Capabilities: x.meta[wire.MetaCapabilities], Tasks: x.declaresTasks(), Inputs: x.inputs}
	wrong := ""
	if c.Inputs != nil && c.Inputs[0] != '{' {
		wrong = "params.inputResponses: must be an object"
	}
	if x.state != nil {
		var ok bool
		if c.State, ok = wire.Text(x.state); !ok || c.State == "" || len(c.State) > ticket.Max {
			wrong = "params.requestState: must be a string of 1 to " + strconv.Itoa(ticket.Max) + " bytes"
		}
	}
	if wrong == "" {
		return c, true
	}
	x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: wrong}, http.StatusBadRequest)
	return c, false
}
