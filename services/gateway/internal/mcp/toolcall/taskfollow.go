package toolcall

import (
	"context"
	"encoding/json"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/panics"
)

// FollowedTasks are tasks of one server that a caller may follow.
type FollowedTasks struct {
	// Run follows them until ctx ends, or the server can't be followed. begun is called once with the caller's ids of those
	// of which there will be notices, changed with the notice of each that has changed while it may be read.
	Run func(ctx context.Context, begun func(ids []string), changed func(id string, notice json.RawMessage))
}

// followedTasks are tasks of one server with who follows them.
type followedTasks struct {
	caller *Caller
	asker  *Asker
	client Client
	meta   json.RawMessage
	server toolserver.Server
	// ids are the server's own, of are what the caller's hold, and shown the caller's.
	ids, shown []string
	of         []*task.Handle
}

// FollowTasks returns the servers of tasks, by the ids of a caller on the path of a server, or of all where server is
// empty. Tasks that the caller may not use, and those of more than maxFollowed servers, are left out. meta is the _meta of
// notices.
func (c *Caller) FollowTasks(ctx context.Context, a *Asker, client Client, server string, ids []string, meta json.RawMessage) ([]FollowedTasks, error) {
	grant, err := c.Admission.Admit(ctx, a.Organization, a.Run, a.KeyTerms)
	if err != nil {
		return nil, err
	}
	defer grant.End(false)
	var all []*followedTasks
	for _, id := range ids {
		h, entry, err := c.openTask(a, server, id)
		if err != nil || !c.usable(facts{authority: grant.Terms().Run, entry: entry}, a, c.Policy(), h) {
			continue
		}
		one := (*followedTasks)(nil)
		for _, of := range all {
			if of.server.Key() == entry.Server.Key() {
				one = of
			}
		}
		if one == nil {
			if len(all) == maxFollowed {
				continue
			}
			one = &followedTasks{caller: c, asker: a, client: client, meta: meta, server: entry.Server}
			all = append(all, one)
		}
		one.ids, one.shown, one.of = append(one.ids, h.ID), append(one.shown, id), append(one.of, h)
	}
	run := make([]FollowedTasks, len(all))
	for i := range all {
		run[i].Run = all[i].run
	}
	return run, ended(grant.Context())
}

// usable reports whether a task may be used, but for what is left of limits. Whether the run goes on is its stream's to
// know.
func (c *Caller) usable(f facts, a *Asker, policy Policy, h *task.Handle) bool {
	var err error
	if f.level, err = c.Trust.Level(a.Organization, f.entry.Server.ID); err != nil {
		return false
	}
	c.ask(&f, a, policy, h.Tool)
	tool, err := decide(&f)
	return err == nil && decideTask(&f, tool.Digest, h) == nil
}

// run is the Run of FollowedTasks. What may have changed while a stream had to be begun again is asked for.
func (r *followedTasks) run(ctx context.Context, begun func(ids []string), changed func(id string, notice json.RawMessage)) {
	first, pause := true, leastAgain
	pass := func(t *task.Task) {
		if i := r.index(t.ID); i >= 0 {
			r.pass(ctx, i, t, changed)
		}
	}
	for ctx.Err() == nil {
		began := false
		_ = r.follow(ctx, func(ids []string) { // Whatever ended it, it is begun again.
			if began = true; first {
				begun(r.shownOf(ids))
			}
		}, pass)
		if first && !began {
			begun(nil)
			return
		}
		if first, pause = false, min(2*pause, mostAgain); began {
			pause = leastAgain
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
			r.lookAgain(ctx, pass)
		}
		timer.Stop()
	}
}

// lookAgain asks for each task once.
func (r *followedTasks) lookAgain(ctx context.Context, pass func(*task.Task)) {
	for i := range r.ids {
		entry := r.entry(i)
		if entry == nil {
			continue
		}
		v := r.viewer(i, entry, r.caller.Policy())
		t, err := r.caller.queryTask(ctx, &entry.Server, &upstream.TaskQuery{
			Organization: r.asker.Organization, Method: wire.MethodGetTask, ID: r.ids[i], Capabilities: v.offered(),
		})
		if err == nil {
			pass(t)
		}
	}
}

// pass passes a task on, if it may be used now.
func (r *followedTasks) pass(ctx context.Context, i int, t *task.Task, changed func(id string, notice json.RawMessage)) {
	entry := r.entry(i)
	if entry == nil {
		return
	}
	text, err := r.viewer(i, entry, r.caller.Policy()).show(ctx, t, &task.Shown{ID: r.shown[i], Meta: r.meta})
	if err == nil {
		changed(r.shown[i], text)
	}
}

// entry returns the server of a task if the task may be used; nil otherwise. The checks are those of a request about it.
func (r *followedTasks) entry(i int) *definition.Entry {
	_, entry, err := r.caller.openTask(r.asker, r.server.ID, r.shown[i])
	if err != nil || !r.caller.usable(facts{entry: entry}, r.asker, r.caller.Policy(), r.of[i]) {
		return nil
	}
	return entry
}

func (r *followedTasks) viewer(i int, entry *definition.Entry, policy Policy) *taskViewer {
	return &taskViewer{caller: r.caller, asker: r.asker, server: &entry.Server, handle: r.of[i], policy: policy, capabilities: r.client.Capabilities}
}

func (r *followedTasks) index(id string) int {
	for i := range r.ids {
		if r.ids[i] == id {
			return i
		}
	}
	return -1
}

// shownOf returns the caller's ids of tasks.
func (r *followedTasks) shownOf(ids []string) (of []string) {
	for _, id := range ids {
		if i := r.index(id); i >= 0 {
			of = append(of, r.shown[i])
		}
	}
	return of
}

// follow follows once. A panic becomes an error: nothing else would take it.
func (r *followedTasks) follow(ctx context.Context, begun func([]string), changed func(*task.Task)) (err error) {
	defer panics.Recover(&err)
	v := &taskViewer{server: &r.server, policy: r.caller.Policy(), capabilities: r.client.Capabilities}
	return r.caller.Upstream.FollowTasks(ctx, &r.server, &upstream.TaskFollow{
		Organization: r.asker.Organization, IDs: r.ids, Capabilities: v.offered(), Begun: begun, Changed: changed,
	})
}
