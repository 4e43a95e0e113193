package toolcall

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// listers is how many servers are asked at once for one list.
const listers = 8

// Offerings returns what a server offers an organization beside tools; see offering.Cache.
type Offerings interface {
	Of(ctx context.Context, organization string, server *toolserver.Server, of upstream.Offer) ([]upstream.Item, error)
}

// Offered is a resource, a template of resources or a prompt that a caller may use.
type Offered struct {
	// Name is the URI, the template, or the name that the caller uses.
	Name string
	// Text is the server's own, with the server's own name.
	Text json.RawMessage
}

// Offers is what a caller may use of one kind.
type Offers struct {
	// Items are in the order of their names.
	Items []Offered
	// Unavailable are the prefixes of the servers that are left out because they can't be asked at the moment.
	Unavailable []string
	// Ambiguous are the URIs that are left out because more than one server has them.
	Ambiguous []string
}

// useOf returns the method by which what a list has is used, and the feature that offers it.
func useOf(of upstream.Offer) (method string, feature toolserver.Feature) {
	if of == upstream.Prompts {
		return wire.MethodGetPrompt, toolserver.FeaturePrompts
	}
	return wire.MethodReadResource, toolserver.FeatureResources
}

// Offers returns what a server offers of one kind, or what all servers do where server is empty: prompts by their exposed
// names, resources by their URIs. It has what a Query would reach, but for its arguments and what is left of limits. The
// error is an *apierr.Error.
func (c *Caller) Offers(ctx context.Context, a *Asker, server string, of upstream.Offer) (Offers, error) {
	method, feature := useOf(of)
	entries, err := c.offering(a, server, feature)
	if err != nil {
		return Offers{}, err
	}
	grant, err := c.Admission.Admit(ctx, a.Organization, a.Run, a.KeyTerms)
	if err != nil {
		return Offers{}, err
	}
	defer grant.End(false)
	asked, err := c.judged(a, c.Policy(), entries)
	if err != nil {
		return Offers{}, err
	}
	for i := range asked {
		asked[i].facts.authority = grant.Terms().Run
	}
	if err := c.gather(grant.Context(), a, asked, of); err != nil {
		return Offers{}, err
	}
	var all Offers
	for i := range asked {
		one := &asked[i]
		if one.err != nil {
			if server != "" {
				return Offers{}, errOffersAway.Wrap(one.err)
			}
			all.Unavailable = append(all.Unavailable, one.facts.entry.Server.Prefix)
			c.Log.WarnContext(ctx, "a server is left out of a list", slog.String("server", one.facts.entry.Server.ID), slog.String("error", one.err.Error()))
			continue
		}
		all.Items = append(all.Items, one.usable(a, method, server == "")...)
	}
	slices.SortStableFunc(all.Items, func(x, y Offered) int { return strings.Compare(x.Name, y.Name) })
	all.dropAmbiguous()
	return all, nil
}

// offering returns the servers that offer a feature: one, or all where id is empty.
func (c *Caller) offering(a *Asker, id string, feature toolserver.Feature) ([]*definition.Entry, error) {
	entries, err := c.listed(a, id)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e *definition.Entry) bool { return !e.Server.Offers(feature) })
	if len(entries) == 0 && id != "" {
		return nil, ErrNotOffered
	}
	return entries, nil
}

// asked is a server that is asked for a list.
type asked struct {
	facts  facts
	policy Policy
	items  []upstream.Item
	err    error
}

// judged returns the servers with what is known of them.
func (c *Caller) judged(a *Asker, policy Policy, entries []*definition.Entry) ([]asked, error) {
	all := make([]asked, len(entries))
	for i, entry := range entries {
		level, err := c.Trust.Level(a.Organization, entry.Server.ID)
		if err != nil {
			return nil, errTrustAway.Wrap(err)
		}
		all[i] = asked{facts: facts{entry: entry, level: level}, policy: policy}
	}
	return all, nil
}

// gather asks the servers, some at a time. A server that may not be used at all is not asked. The error is that of the
// request, which has ended.
func (c *Caller) gather(ctx context.Context, a *Asker, servers []asked, of upstream.Offer) error {
	var group errgroup.Group
	group.SetLimit(listers)
	for i := range servers {
		one := &servers[i]
		if !one.open() {
			continue
		}
		group.Go(func() error {
			c.Listings.Used(one.facts.entry.Server.Key())
			one.items, one.err = c.Offerings.Of(ctx, a.Organization, &one.facts.entry.Server, of)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ended(ctx)
}

// open reports whether something of a server may be usable, whatever the rules say.
func (s *asked) open() bool {
	return !s.facts.entry.Changed() && s.facts.level.AtLeast(s.policy.Rules.LeastTrust())
}

// usable returns the items that decide lets pass, by the names that the caller uses.
func (s *asked) usable(a *Asker, method string, exposed bool) (of []Offered) {
	server := &s.facts.entry.Server
	for i := range s.items {
		name := s.items[i].Key
		if method == wire.MethodGetPrompt && exposed {
			if !server.Exposable(name) {
				continue
			}
			name = server.Exposed(name)
		}
		s.facts.askOf(a, s.policy, method, s.items[i].Key)
		if decideOffer(&s.facts) == nil {
			of = append(of, Offered{name, s.items[i].Text})
		}
	}
	return of
}

// maxAmbiguous bounds the names that are said to be ambiguous.
const maxAmbiguous = 20

// dropAmbiguous drops the items that several servers have. They are sorted.
func (o *Offers) dropAmbiguous() {
	kept := o.Items[:0]
	for i := 0; i < len(o.Items); {
		next := i + 1
		for next < len(o.Items) && o.Items[next].Name == o.Items[i].Name {
			next++
		}
		if next == i+1 {
			kept = append(kept, o.Items[i])
		} else if len(o.Ambiguous) < maxAmbiguous {
			o.Ambiguous = append(o.Ambiguous, o.Items[i].Name)
		}
		i = next
	}
	o.Items = kept
}

// locate returns the server that has a resource, or a template, among those of all servers. Where one can't be asked,
// nothing is known of whose the URI is.
func (c *Caller) locate(ctx context.Context, a *Asker, policy Policy, f *facts, of upstream.Offer) error {
	method, feature := f.method, toolserver.FeatureResources
	entries, err := c.offering(a, "", feature)
	if err != nil {
		return err
	}
	servers, err := c.judged(a, policy, entries)
	if err != nil {
		return err
	}
	if err := c.gather(ctx, a, servers, of); err != nil {
		return err
	}
	var found, passing []*definition.Entry
	for i := range servers {
		one := &servers[i]
		if one.err != nil {
			return errOwnerUnknown.Wrap(one.err)
		}
		if !slices.ContainsFunc(one.items, func(item upstream.Item) bool { return item.Key == f.tool }) {
			continue
		}
		one.facts.authority = f.authority
		one.facts.askOf(a, policy, method, f.tool)
		if found = append(found, one.facts.entry); decideOffer(&one.facts) == nil {
			passing = append(passing, one.facts.entry)
		}
	}
	switch {
	case len(passing) == 1:
		f.entry = passing[0]
	case len(found) == 0:
		return ErrResourceNotFound
	case len(found) == 1:
		f.entry = found[0]
	default:
		return ErrAmbiguous
	}
	return nil
}

// Features reports which features the servers of an organization offer: one, or all where server is empty.
func (c *Caller) Features(organization, server string) map[toolserver.Feature]bool {
	entries, err := c.listed(&Asker{Organization: organization}, server)
	if err != nil {
		return nil
	}
	of := make(map[toolserver.Feature]bool)
	for _, feature := range toolserver.Features() {
		of[feature] = slices.ContainsFunc(entries, func(e *definition.Entry) bool { return e.Server.Offers(feature) })
	}
	of[toolserver.FeatureTasks] = of[toolserver.FeatureTasks] && c.seals()
	return of
}
