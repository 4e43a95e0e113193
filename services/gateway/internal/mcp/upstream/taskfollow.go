package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// TaskFollow is a stream of notices of a server that tasks have changed.
type TaskFollow struct {
	// Organization is the one that follows. Organizations share no session.
	Organization string
	// IDs are the server's own, and Capabilities those of a TaskQuery.
	IDs          []string
	Capabilities json.RawMessage
	// Begun is called once with those of IDs of which the server sends notices, Changed for each notice with the task, which
	// is of use during the call alone. Both are called on the caller's goroutine.
	Begun   func(ids []string)
	Changed func(t *task.Task)
}

// FollowTasks receives notices until ctx, the server or a bound ends the stream. The errors are those of Call; nil means
// that the server has ended it.
func (c *Client) FollowTasks(ctx context.Context, server *toolserver.Server, f *TaskFollow) error {
	p, err := c.peer(ctx, server, f.Organization, nil)
	if err != nil {
		return err
	}
	err = c.listen(ctx, p, f.receive, "taskIds", f.IDs, f.Capabilities)
	if errors.Is(err, errOfSession) {
		return errNoFollow
	}
	return err
}

// receive takes a notification of the stream. One that breaks a rule counts as none: the task can still be asked for.
func (f *TaskFollow) receive(m *wire.Message) {
	switch m.Method {
	case wire.MethodListening:
		if f.Begun != nil {
			f.Begun(acknowledged(m.Params, "taskIds", f.IDs))
			f.Begun = nil
		}
	case wire.MethodTask:
		id := ""
		wire.Members(orEmpty(m.Params), func(name string, value []byte) bool {
			if name == "taskId" {
				id, _ = wire.Text(value)
			}
			return id == ""
		})
		if f.Begun != nil || !slices.Contains(f.IDs, id) {
			return
		}
		if t, _, err := readWhole(m.Params, id); err == nil {
			f.Changed(t)
		}
	}
}
