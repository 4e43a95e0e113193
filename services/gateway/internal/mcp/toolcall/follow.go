package toolcall

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/panics"
)

// Bounds of streams that follow resources: how many servers one caller follows, and when a stream that has ended is begun
// again.
const (
	maxFollowed           = 8
	leastAgain, mostAgain = time.Second, time.Minute
	// busyTries is how often a stream is begun that finds no place, leastAgain apart. The caller's stream waits for it.
	busyTries = 4
)

// Followed are resources of one server that a caller may follow.
type Followed struct {
	// Run follows them until ctx ends, or the server can't be followed. begun is called once with those of which there will
	// be notices, updated with the URI of each that has changed while it may be read; where a stream had to be begun again,
	// with all of them.
	Run func(ctx context.Context, begun func(uris []string), updated func(uri string))
}

// followed are resources of one server with who follows them.
type followed struct {
	caller *Caller
	asker  *Asker
	entry  *definition.Entry
	uris   []string
}

// Follows returns the servers of resources, of one server or of all where server is empty. Resources that the caller may
// not read, that no server lists where all are asked, and those of more than maxFollowed servers, are left out.
func (c *Caller) Follows(ctx context.Context, a *Asker, server string, uris []string) ([]Followed, error) {
	grant, err := c.Admission.Admit(ctx, a.Organization, a.Run, a.KeyTerms)
	if err != nil {
		return nil, err
	}
	defer grant.End(false)
	var all []followed
	policy := c.Policy()
	for _, uri := range uris {
		f := facts{method: wire.MethodReadResource, tool: uri, authority: grant.Terms().Run}
		if server != "" {
			f.entry = c.Registry.Find(a.Organization, server)
		} else if err := c.locate(grant.Context(), a, policy, &f, upstream.Resources); err != nil {
			continue
		}
		if f.entry != nil && c.readable(&f, a, policy) {
			all = with(all, followed{c, a, f.entry, []string{uri}})
		}
	}
	run := make([]Followed, len(all))
	for i := range all {
		run[i].Run = all[i].run
	}
	return run, ended(grant.Context())
}

// with adds the resource of a server to those of the servers before.
func with(all []followed, one followed) []followed {
	for i := range all {
		if all[i].entry.Server.Key() == one.entry.Server.Key() {
			all[i].uris = append(all[i].uris, one.uris...)
			return all
		}
	}
	if len(all) == maxFollowed {
		return all
	}
	return append(all, one)
}

// readable reports whether a resource may be read, but for what is left of limits.
func (c *Caller) readable(f *facts, a *Asker, policy Policy) bool {
	var err error
	if f.level, err = c.Trust.Level(a.Organization, f.entry.Server.ID); err != nil {
		return false
	}
	f.askOf(a, policy, wire.MethodReadResource, f.tool)
	return decideOffer(f) == nil
}

// run is the Run of Followed.
func (r *followed) run(ctx context.Context, begun func(uris []string), updated func(uri string)) {
	first, pause := true, leastAgain
	pass := func(uri string) {
		entry := r.caller.Registry.Find(r.asker.Organization, r.entry.Server.ID)
		if entry == nil || !r.caller.readable(&facts{entry: entry, tool: uri}, r.asker, r.caller.Policy()) {
			return
		}
		updated(uri)
	}
	for try := 1; ctx.Err() == nil; try++ {
		began := false
		err := r.follow(ctx, func(uris []string) {
			if began = true; first {
				begun(uris)
			} else {
				for _, uri := range uris {
					pass(uri)
				}
			}
			first, pause = false, leastAgain
		}, pass)
		if first && err != nil && (try == busyTries || !isBusy(err)) {
			begun(nil)
			return
		}
		if !began && !first {
			pause = min(2*pause, mostAgain)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// isBusy reports whether an error says that there is no place now, but may be one soon.
func isBusy(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && e.Cause == upstream.CauseBusy
}

// follow follows once. A panic becomes an error: nothing else would take it.
func (r *followed) follow(ctx context.Context, begun func([]string), updated func(string)) (err error) {
	defer panics.Recover(&err)
	return r.caller.Upstream.Follow(ctx, &r.entry.Server, &upstream.Follow{
		Organization: r.asker.Organization, URIs: r.uris, Begun: begun, Updated: updated,
	})
}
