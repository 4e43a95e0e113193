package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// progressEvery bounds how often progress is passed on in the long run; progressBurst reports may come at once.
const (
	progressEvery = 50 * time.Millisecond
	progressBurst = 10
)

// call answers tools/call.
func (x *exchange) call(ctx context.Context) {
	if x.name == "" {
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: "params.name: is required"}, http.StatusBadRequest)
		return
	}
	tool := toolcall.Name{Server: x.server, Tool: x.name}
	definition, known := x.handler.Tools.Definition(ctx, x.asker, tool)
	x.known = known
	if x.modern && known {
		if refused := x.checkMirrored(definition); refused != nil {
			x.fail(&refused.err, refused.status)
			return
		}
	}
	client, ok := x.client()
	if !ok {
		return
	}
	r := &toolcall.Request{Asker: *x.asker, Tool: tool, Arguments: x.arguments, Meta: x.meta, Client: client}
	if x.token != nil {
		r.Progress = x.progress
	}
	r.Log = x.log()
	answer, err := x.handler.Tools.Call(ctx, r)
	if err != nil {
		x.refuse(err)
		return
	}
	if answer.IsError {
		x.failure = "tool_error"
	}
	if x.modern {
		answer.Text = completed(answer.Text)
	}
	x.answer(answer.Text)
}

// completed returns a result that says that it is complete. Results of older servers don't.
func completed(result json.RawMessage) json.RawMessage {
	kind, members := false, false
	wire.Members(result, func(name string, _ []byte) bool {
		kind, members = kind || name == "resultType", true
		return !kind
	})
	if kind {
		return result
	}
	inside := bytes.TrimLeft(result, " \t\r\n")[1:]
	head := `{"resultType":"` + wire.ResultComplete + `"`
	if members {
		head += ","
	}
	return append(append(make([]byte, 0, len(head)+len(inside)), head...), inside...)
}

// progress passes on a report of progress.
func (x *exchange) progress(p upstream.Progress) {
	if !x.paced(time.Now()) {
		return
	}
	params := append(append(make([]byte, 0, 128), `{"progressToken":`...), x.token...)
	params = append(params, `,"progress":`...)
	params = strconv.AppendFloat(params, p.Progress, 'g', -1, 64)
	if p.Total != 0 {
		params = strconv.AppendFloat(append(params, `,"total":`...), p.Total, 'g', -1, 64)
	}
	if p.Message != "" {
		params = jsontext.AppendText(append(params, `,"message":`...), p.Message)
	}
	x.reply.notify(&wire.Message{Method: wire.MethodProgress, Params: append(params, '}')})
}

// paced reports whether a report of progress may be passed on now. It counts it.
func (x *exchange) paced(now time.Time) bool {
	if least := now.Add(-progressBurst * progressEvery); x.progressed.Before(least) {
		x.progressed = least
	}
	next := x.progressed.Add(progressEvery)
	if next.After(now) {
		return false
	}
	x.progressed = next
	return true
}
