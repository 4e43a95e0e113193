package definition

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

const (
	// pageSize is how many servers are loaded at a time, with up to MaxTools tools each and those that were reviewed before.
	pageSize = 50
	// reloadAfter is the age of what is in memory from which all of it is loaded again: the store forgets what was removed
	// RemovedFor ago.
	reloadAfter = RemovedFor / 2
	// RemovedFor is how long the store keeps the rows of servers that were removed.
	RemovedFor = 48 * time.Hour
)

// Change is a change of a server or of its definitions.
type Change struct {
	Key      toolserver.Key
	Revision int64
	// Entry is nil for a server that was removed.
	Entry *Entry
}

// Feed delivers the changes that a Registry follows.
type Feed interface {
	// Revision returns the present version of the topic.
	Revision(ctx context.Context) (int64, error)
	// ChangedSince returns the changes that follow after, in the order of revision, organization and ID.
	ChangedSince(ctx context.Context, after Change, limit int) ([]Change, error)
}

// Registry holds what is registered and reviewed in the memory of a replica, so that a call needs no look-up. It knows
// nothing before the first Load. Safe for concurrent use.
type Registry struct {
	feed Feed
	now  func() time.Time

	writing sync.Mutex
	loaded  time.Time // of the last Load; the caller holds writing
	indexes atomic.Pointer[map[string]*index]
}

// NewRegistry returns an empty Registry.
func NewRegistry(feed Feed) *Registry {
	r := &Registry{feed: feed, now: time.Now}
	r.indexes.Store(&map[string]*index{})
	return r
}

// Load implements control.Load: it loads what changed after a version.
func (r *Registry) Load(ctx context.Context, since int64) (int64, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	at := r.now()
	level, err := r.feed.Revision(ctx)
	if err != nil {
		return since, err
	}
	indexes := maps.Clone(*r.indexes.Load())
	if since == 0 || at.Sub(r.loaded) > reloadAfter {
		since, indexes = 0, make(map[string]*index)
	}
	after := Change{Revision: since + 1} // Before all that have a name.
	for {
		page, err := r.feed.ChangedSince(ctx, after, pageSize)
		if err != nil {
			return since, err
		}
		put(indexes, page)
		if len(page) < pageSize {
			break
		}
		after = page[len(page)-1]
	}
	r.indexes.Store(&indexes)
	r.loaded = at
	return level, nil
}

// put puts changes into indexes.
func put(indexes map[string]*index, changes []Change) {
	changed := make(map[string]map[string]*Entry)
	for _, c := range changes {
		byID, ok := changed[c.Key.Organization]
		if !ok {
			byID = make(map[string]*Entry)
			if s := indexes[c.Key.Organization]; s != nil {
				maps.Copy(byID, s.byID)
			}
			changed[c.Key.Organization] = byID
		}
		if c.Entry == nil {
			delete(byID, c.Key.ID)
		} else {
			byID[c.Key.ID] = c.Entry
		}
	}
	for organization, byID := range changed {
		if len(byID) == 0 {
			delete(indexes, organization)
		} else {
			indexes[organization] = newIndex(byID)
		}
	}
}

// index returns the servers of an organization, or of all for the empty one.
func (r *Registry) index(organization string) *index {
	if s := (*r.indexes.Load())[organization]; s != nil {
		return s
	}
	return emptyIndex
}

// Exactly returns the server with a key; nil for none.
func (r *Registry) Exactly(key toolserver.Key) *Entry { return r.index(key.Organization).byID[key.ID] }

// Find returns the server that an organization calls by an ID: its own, else that of all; nil for none.
func (r *Registry) Find(organization, id string) *Entry {
	if e := r.index(organization).byID[id]; e != nil {
		return e
	}
	return r.index("").byID[id]
}

// Prefixed returns the server whose tools an organization calls by names with a prefix: its own, else that of all;
// nil for none. A server of all is not found where the organization has its own with the same ID.
func (r *Registry) Prefixed(organization, prefix string) *Entry {
	own := r.index(organization)
	if e := own.byPrefix[prefix]; e != nil {
		return e
	}
	e := r.index("").byPrefix[prefix]
	if e == nil || own.byID[e.Server.ID] != nil {
		return nil
	}
	return e
}

// Servers returns the servers that an organization may call, sorted by ID: its own, and those of all that it has no own
// one in place of. The empty organization has those of all.
func (r *Registry) Servers(organization string) []*Entry {
	own, all := r.index(organization), r.index("")
	if organization == "" || len(all.sorted) == 0 {
		return slices.Clone(own.sorted)
	}
	servers := slices.Clone(own.sorted)
	for _, e := range all.sorted {
		if own.byID[e.Server.ID] == nil {
			servers = append(servers, e)
		}
	}
	slices.SortFunc(servers, func(a, b *Entry) int { return strings.Compare(a.Server.ID, b.Server.ID) })
	return servers
}

// Exposed returns the servers of an organization whose tools have names among those of all its servers, sorted by ID:
// Servers without those of all whose prefix one of its own has.
func (r *Registry) Exposed(organization string) []*Entry {
	return slices.DeleteFunc(r.Servers(organization), func(e *Entry) bool {
		return r.Prefixed(organization, e.Server.Prefix) != e
	})
}
