package toolcall

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/definition"
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
	entries, err := c.listed(a, server)
	if err != nil {
		return List{}, err
	}
	grant, err := c.Admission.Admit(ctx, a.Organization, a.Run, a.KeyTerms)
	if err != nil {
		return List{}, err
	}
	defer grant.End(false)
	policy, authority := c.Policy(), grant.Terms().Run
	var list List
	for _, entry := range entries {
		c.Listings.Used(entry.Server.Key())
		f := facts{authority: authority, entry: entry}
		if f.level, err = c.Trust.Level(a.Organization, entry.Server.ID); err != nil {
			return List{}, errTrustAway.Wrap(err)
		}
		tools, err := c.callable(grant.Context(), &f, a, policy, server == "")
		switch {
		case err != nil && server != "":
			return List{}, errListingAway.Wrap(err)
		case err != nil:
			list.Unavailable = append(list.Unavailable, entry.Server.Prefix)
			c.Log.WarnContext(ctx, "a server is left out of a list", slog.String("server", entry.Server.ID), slog.String("error", err.Error()))
			continue
		}
		list.Tools = append(list.Tools, tools...)
	}
	slices.SortFunc(list.Tools, func(x, y Tool) int { return strings.Compare(x.Name, y.Name) })
	return list, nil
}

// listed returns the servers whose tools are listed.
func (c *Caller) listed(a *Asker, id string) ([]*definition.Entry, error) {
	if id == "" {
		return c.Registry.Exposed(a.Organization), nil
	}
	entry := c.Registry.Find(a.Organization, id)
	if entry == nil {
		return nil, ErrServerNotFound
	}
	return []*definition.Entry{entry}, nil
}

// callable returns the tools of a server that decide lets pass. It reads their definitions only if there is one.
func (c *Caller) callable(ctx context.Context, f *facts, a *Asker, policy Policy, exposed bool) ([]Tool, error) {
	named := make(map[definition.Digest]string)
	for _, tool := range f.entry.Tools() {
		name := tool.Name
		if exposed {
			if !f.entry.Server.Exposable(name) {
				continue
			}
			name = f.entry.Server.Exposed(name)
		}
		c.ask(f, a, policy, tool.Name)
		if _, err := decide(f); err == nil {
			named[tool.Digest] = name
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	texts, err := c.Texts.Of(ctx, f.entry)
	if err != nil {
		return nil, err
	}
	var tools []Tool
	for i := range texts {
		if name, ok := named[texts[i].Digest]; ok {
			tools = append(tools, Tool{name, texts[i].Text})
		}
	}
	return tools, nil
}

// ask completes the facts for one tool.
func (c *Caller) ask(f *facts, a *Asker, policy Policy, tool string) {
	f.tool = tool
	f.terms, f.denial = policy.Rules.List(question(a, f.entry.Server.ID, tool))
}

// question returns what the policy is asked of a tool; it has no arguments.
func question(a *Asker, server, tool string) *toolrule.Call {
	return &toolrule.Call{Server: server, Tool: tool, Organization: a.Organization, Run: a.Run, User: a.User}
}

// Definition returns the definition of a tool as its server sent it, for checks of how a call was written. It reports
// false where the name is unknown; whether the tool may be called is not decided.
func (c *Caller) Definition(ctx context.Context, a *Asker, name Name) (json.RawMessage, bool) {
	entry, tool, err := c.find(a, name)
	if err != nil {
		return nil, false
	}
	found, err := c.text(ctx, entry, tool)
	if err != nil {
		return nil, false
	}
	return found.Text, true
}

// text returns the definition of a tool of a server's latest listing. The error is definition.ErrToolNotFound, or one of
// the store.
func (c *Caller) text(ctx context.Context, entry *definition.Entry, tool string) (*definition.Reviewed, error) {
	texts, err := c.Texts.Of(ctx, entry)
	if err != nil {
		return nil, errListingAway.Wrap(err)
	}
	i, found := slices.BinarySearchFunc(texts, tool, func(r definition.Reviewed, name string) int { return strings.Compare(r.Name, name) })
	if !found {
		return nil, definition.ErrToolNotFound
	}
	return &texts[i], nil
}

// Knows reports whether an organization may call a server of this id.
func (c *Caller) Knows(organization, server string) bool {
	return c.Registry.Find(organization, server) != nil
}

// find returns the server of a name and the tool's own name.
func (c *Caller) find(a *Asker, name Name) (*definition.Entry, string, error) {
	if name.Server != "" {
		entry := c.Registry.Find(a.Organization, name.Server)
		if entry == nil {
			return nil, "", ErrServerNotFound
		}
		return entry, name.Tool, nil
	}
	prefix, tool, ok := toolserver.Split(name.Tool)
	if !ok {
		return nil, "", definition.ErrToolNotFound
	}
	entry := c.Registry.Prefixed(a.Organization, prefix)
	if entry == nil || !entry.Server.Exposable(tool) {
		return nil, "", definition.ErrToolNotFound
	}
	return entry, tool, nil
}
