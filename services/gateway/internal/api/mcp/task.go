package mcp

import (
	"context"
	"encoding/json"
	"net/http"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// declaresTasks reports whether the caller declares that it takes tasks, which only the revision without sessions has in
// this form.
func (x *exchange) declaresTasks() bool {
	declared := false
	wire.Members(x.meta[wire.MetaCapabilities], func(name string, value []byte) bool {
		if name == memberExtensions {
			wire.Members(value, func(name string, value []byte) bool {
				declared = declared || name == wire.ExtensionTasks && value[0] == '{'
				return !declared
			})
		}
		return true
	})
	return x.modern && declared
}

// takesTasks reports whether requests about tasks are served.
func (x *exchange) takesTasks() bool {
	return x.modern && x.handler.Tools.Features(x.asker.Organization, x.server)[toolserver.FeatureTasks]
}

// undeclaredTasks is the error of a request that only callers make that declare tasks.
func undeclaredTasks() *wire.Error {
	return &wire.Error{
		Code: wire.CodeMissingCapability, Message: "params._meta." + wire.MetaCapabilities + ".extensions: must have " + wire.ExtensionTasks,
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + wire.ExtensionTasks + `":{}}}}`),
	}
}

// task answers tasks/get, tasks/update and tasks/cancel.
func (x *exchange) task(ctx context.Context) {
	if !x.declaresTasks() {
		x.fail(undeclaredTasks(), http.StatusBadRequest)
		return
	}
	client, ok := x.client()
	if !ok {
		return
	}
	wrong := ""
	switch {
	case x.taskID == "":
		wrong = "params.taskId: is required"
	case x.message.Method == wire.MethodUpdateTask && client.Inputs == nil:
		wrong = "params.inputResponses: is required"
	}
	if wrong != "" {
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: wrong}, http.StatusBadRequest)
		return
	}
	answer, err := x.handler.Tools.Task(ctx, &toolcall.TaskRequest{
		Asker: *x.asker, Server: x.server, Method: x.message.Method, ID: x.taskID, Client: client,
	})
	if err != nil {
		x.refuse(err)
		return
	}
	x.answer(answer.Text)
}
