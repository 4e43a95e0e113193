package toolcall

import (
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/apierr"
)

// facts is what is known of a tool when it is decided whether it may be called, whatever its arguments.
type facts struct {
	// authority is the run's; nil for a call without a minted run. runAllows reports whether it has the tool.
	authority *run.Run
	runAllows bool
	server    *toolserver.Server
	// tool is the tool's own name.
	tool  string
	level trust.Level
	terms Terms
	// listing is the server's latest one.
	listing *Listing
}

// decide returns the definition of a tool that may be called, or why it may not. Lists and calls share it; a call takes
// from its run's limits between the two parts.
func decide(f *facts) (*definition.Reviewed, *apierr.Error) {
	if refused := decideRun(f); refused != nil {
		return nil, refused
	}
	return decideTool(f)
}

// decideRun returns why calls of a run, or of none, may not use a tool; nil if they may.
func decideRun(f *facts) *apierr.Error {
	switch {
	case f.authority == nil && f.terms.NeedsRun:
		return ErrRunRequired
	case f.authority != nil && !f.runAllows:
		return ErrNotAllowed
	}
	return nil
}

// decideTool returns the definition of a tool of a server that is trusted enough, if it is approved and no rule denies
// it.
func decideTool(f *facts) (*definition.Reviewed, *apierr.Error) {
	if !f.level.AtLeast(f.terms.MinimumTrust) {
		return nil, ErrUntrusted
	}
	tool := f.listing.find(f.tool)
	switch {
	case tool == nil:
		return nil, ErrToolNotFound
	case f.listing.Changed:
		return nil, ErrChanged
	case tool.Status == definition.Rejected:
		return nil, ErrRejected
	case tool.Status != definition.Approved:
		return nil, ErrUnreviewed
	case f.terms.DeniedBy != "":
		return nil, deniedBy(f.terms.DeniedBy)
	}
	return tool, nil
}

// find returns the definition of a tool that the latest listing holds; nil for none.
func (l *Listing) find(name string) *definition.Reviewed {
	i, found := slices.BinarySearchFunc(l.Tools, name, func(r definition.Reviewed, name string) int { return strings.Compare(r.Name, name) })
	for ; found && i < len(l.Tools) && l.Tools[i].Name == name; i++ {
		if l.Tools[i].Present {
			return &l.Tools[i]
		}
	}
	return nil
}

// exposable matches the names that may be listed among those of all servers.
var exposable = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// exposes reports whether a tool has a name among those of all servers.
func exposes(server *toolserver.Server, tool string) bool {
	return exposable.MatchString(server.Exposed(tool))
}
