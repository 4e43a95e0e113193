package definition

import (
	"maps"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/apierr"
)

// Reasons of refused calls.
const (
	ReasonToolNotFound apierr.Reason = "tool_not_found"
	ReasonUnreviewed   apierr.Reason = "definition_unreviewed"
	ReasonChanged      apierr.Reason = "definition_changed"
	ReasonRejected     apierr.Reason = "definition_rejected"
)

// Errors of calls of tools that may not be called.
var (
	ErrToolNotFound = apierr.New(apierr.KindNotFound, ReasonToolNotFound, "the tool does not exist")
	ErrUnreviewed   = refusal(ReasonUnreviewed, "the definition of the tool waits for its first review")
	ErrChanged      = refusal(ReasonChanged, "the definition of a reviewed tool of the server has changed and waits for a review")
	ErrRejected     = refusal(ReasonRejected, "the definition of the tool was rejected")
)

func refusal(reason apierr.Reason, text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy, Text: text}
}

// Tool is a tool of the latest listing of its server.
type Tool struct {
	Name   string
	Digest Digest
	Status Status
	// Changed reports whether another definition of it was approved.
	Changed bool
}

// Entry is a registered server with the tools of its latest listing. It never changes: a change makes another one.
type Entry struct {
	Server toolserver.Server
	// Revision is the version of the topic that the entry is of.
	Revision int64
	tools    []Tool
	byName   map[string]int
	// listing is the digest of the listing that the tools are of.
	listing Digest
	// changed reports whether a review of a changed definition is pending.
	changed bool
}

// NewEntry returns the entry of a server, of which known is stored.
func NewEntry(server toolserver.Server, revision int64, known []Known) *Entry {
	e := &Entry{Server: server, Revision: revision, byName: make(map[string]int)}
	approved := make(map[string]bool)
	for _, k := range known {
		if k.Status == Approved && !k.Present {
			approved[k.Name] = true
		}
	}
	for _, k := range known {
		if k.Present {
			e.tools = append(e.tools, Tool{Name: k.Name, Digest: k.Digest, Status: k.Status, Changed: approved[k.Name]})
		}
	}
	slices.SortFunc(e.tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	for i, tool := range e.tools {
		e.byName[tool.Name] = i
		e.changed = e.changed || tool.Changed && tool.Status == Pending
	}
	e.listing = sumOf(e.tools, func(t *Tool) (string, *Digest) { return t.Name, &t.Digest })
	return e
}

// Listing returns the digest of the listing that the tools are of, as Sum does.
func (e *Entry) Listing() Digest { return e.listing }

// Tools returns the tools of the latest listing, sorted by name. Callers don't change them.
func (e *Entry) Tools() []Tool { return e.tools }

// Check returns a tool that may be called as far as its definition goes. The error is ErrToolNotFound, ErrChanged,
// ErrUnreviewed or ErrRejected.
func (e *Entry) Check(name string) (Tool, error) {
	i, ok := e.byName[name]
	if !ok {
		return Tool{}, ErrToolNotFound
	}
	tool := e.tools[i]
	switch {
	case e.changed:
		return tool, ErrChanged
	case tool.Status == Approved:
		return tool, nil
	case tool.Status == Rejected:
		return tool, ErrRejected
	}
	return tool, ErrUnreviewed
}

// Pending returns how many tools wait for a review.
func (e *Entry) Pending() (n int) {
	for i := range e.tools {
		if e.tools[i].Status == Pending {
			n++
		}
	}
	return n
}

// Changed reports whether a reviewed tool has another definition now that waits for a review.
func (e *Entry) Changed() bool { return e.changed }

// Unexposed returns the tools that have no name among those of all servers, sorted.
func (e *Entry) Unexposed() (names []string) {
	for i := range e.tools {
		if !e.Server.Exposable(e.tools[i].Name) {
			names = append(names, e.tools[i].Name)
		}
	}
	return names
}

// index holds the servers of an organization, or those of all. It is never changed.
type index struct {
	byID, byPrefix map[string]*Entry
	sorted         []*Entry // by ID
}

var emptyIndex = newIndex(nil)

func newIndex(byID map[string]*Entry) *index {
	s := &index{byID: byID, byPrefix: make(map[string]*Entry, len(byID))}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		s.sorted = append(s.sorted, byID[id])
		s.byPrefix[byID[id].Server.Prefix] = byID[id]
	}
	return s
}
