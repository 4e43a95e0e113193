package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// Tool is a tool that a caller may call.
type Tool struct {
	// Name is the name that the caller uses.
	Name string
	// Definition is the server's own, with the server's own name of the tool.
	Definition json.RawMessage
}

// List is what a caller may call.
type List struct {
	// Tools are in the order of their names.
	Tools []Tool
	// Unavailable are the prefixes of the servers whose tools are left out because they can't be read at the moment.
	Unavailable []string
}

// List returns the tools of a server, by their own names, or of all servers, by their exposed ones, where server is
// empty. It has those that a call would reach, but for its arguments and what is left of limits. The error is an
// *apierr.Error.
func (c *Caller) List(ctx context.Context, a *Asker, server string) (List, error) {
	servers, err := c.listed(a, server)
	if err != nil {
		return List{}, err
	}
	grant, err := c.Admission.Admit(ctx, a.Organization, a.Run, a.KeyTerms)
	if err != nil {
		return List{}, err
	}
	defer grant.End(false)
	rules, authority := c.Rules(), grant.Terms().Run
	var list List
	for _, of := range servers {
		level, err := c.Trust.Level(a.Organization, of.ID)
		if err != nil {
			return List{}, errTrustAway.Wrap(err)
		}
		listing, err := c.Definitions.Listing(grant.Context(), of, 0)
		switch {
		case err != nil && server != "":
			return List{}, errListingAway.Wrap(err)
		case err != nil:
			list.Unavailable = append(list.Unavailable, of.Prefix)
			if !errors.Is(err, ErrUnlisted) {
				c.Log.WarnContext(ctx, "a server is left out of a list", slog.String("server", of.ID), slog.String("error", err.Error()))
			}
			continue
		}
		f := facts{authority: authority, server: of, level: level, listing: &listing}
		list.Tools = append(list.Tools, c.callable(&f, a, rules, server == "")...)
	}
	slices.SortFunc(list.Tools, func(x, y Tool) int { return strings.Compare(x.Name, y.Name) })
	return list, nil
}

// listed returns the servers whose tools are listed.
func (c *Caller) listed(a *Asker, id string) ([]*toolserver.Server, error) {
	if id == "" {
		return c.Servers.Of(a.Organization), nil
	}
	of, ok := c.Servers.Find(a.Organization, id)
	if !ok {
		return nil, ErrServerNotFound
	}
	return []*toolserver.Server{of}, nil
}

// callable returns the tools of a listing that decide lets pass.
func (c *Caller) callable(f *facts, a *Asker, rules Rules, exposed bool) (tools []Tool) {
	for i := range f.listing.Tools {
		name := f.listing.Tools[i].Name
		if !f.listing.Tools[i].Present || exposed && !exposes(f.server, name) {
			continue
		}
		c.ask(f, a, rules, name)
		tool, refused := decide(f)
		if refused != nil || tool != &f.listing.Tools[i] {
			continue
		}
		if exposed {
			name = f.server.Exposed(name)
		}
		tools = append(tools, Tool{name, tool.Text})
	}
	return tools
}

// ask completes the facts for one tool.
func (c *Caller) ask(f *facts, a *Asker, rules Rules, tool string) {
	f.tool = tool
	f.terms = rules.Terms(question(a, f.server, tool))
	f.runAllows = f.authority == nil || c.RunAllows(f.authority, f.server.ID, tool)
}

func question(a *Asker, server *toolserver.Server, tool string) Question {
	return Question{Server: server.ID, Tool: tool, Organization: a.Organization, Run: a.Run, User: a.User}
}

// Definition returns the definition of a tool as its server sent it, for checks of how a call was written. It reports
// false where the name is unknown; whether the tool may be called is not decided.
func (c *Caller) Definition(ctx context.Context, a *Asker, name Name) (json.RawMessage, bool) {
	server, tool, err := c.find(a, name)
	if err != nil {
		return nil, false
	}
	listing, err := c.Definitions.Listing(ctx, server, 0)
	if err != nil {
		return nil, false
	}
	if found := listing.find(tool); found != nil {
		return found.Text, true
	}
	return nil, false
}

// Knows reports whether an organization may call a server of this id.
func (c *Caller) Knows(organization, server string) bool {
	_, ok := c.Servers.Find(organization, server)
	return ok
}

// find returns the server of a name and the tool's own name.
func (c *Caller) find(a *Asker, name Name) (*toolserver.Server, string, error) {
	if name.Server != "" {
		of, ok := c.Servers.Find(a.Organization, name.Server)
		if !ok {
			return nil, "", ErrServerNotFound
		}
		return of, name.Tool, nil
	}
	prefix, tool, ok := toolserver.Split(name.Tool)
	if !ok {
		return nil, "", ErrToolNotFound
	}
	of, ok := c.Servers.Prefixed(a.Organization, prefix)
	if !ok || !exposes(of, tool) {
		return nil, "", ErrToolNotFound
	}
	return of, tool, nil
}
