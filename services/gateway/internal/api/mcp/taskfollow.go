package mcp

import (
	"context"
	"encoding/json"
	"slices"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/panics"
)

// readTasks reads a list of ids, each once. It reports whether it is one.
func (f *subscriptionFilter) readTasks(value []byte) bool {
	f.tasks = []string{}
	valid := true
	return wire.Elements(value, func(value []byte) bool {
		id, _ := wire.Text(value)
		if valid = id != "" && len(id) <= task.MaxHandle && len(f.tasks) < maxFollowed; valid && !slices.Contains(f.tasks, id) {
			f.tasks = append(f.tasks, id)
		}
		return valid
	}) && valid
}

// beginTasks begins to follow tasks, and returns those of which there will be notices. Servers that don't acknowledge them
// in time are left out. It is called behind begin.
func (f *follows) beginTasks(ctx context.Context, x *exchange, ids []string, meta map[string]json.RawMessage) []string {
	if len(ids) == 0 || !x.takesTasks() {
		return nil
	}
	text, err := jsontext.Marshal(meta)
	if err != nil {
		return nil
	}
	client := toolcall.Client{Capabilities: x.meta[wire.MetaCapabilities], Tasks: true}
	servers, err := x.handler.Tools.FollowTasks(ctx, x.asker, client, x.server, ids, text)
	if err != nil {
		return nil
	}
	begun := make(chan []string, len(servers))
	var known known
	for i := range servers {
		f.group.Go(panics.Guard(func() error {
			servers[i].Run(ctx, func(ids []string) { begun <- ids }, func(id string, notice json.RawMessage) {
				if f.rest(ctx) && known.is(id) {
					x.reply.notify(&wire.Message{Method: wire.MethodTask, Params: notice})
				}
			})
			return nil
		}))
	}
	return known.await(ctx, len(servers), begun)
}
