package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/expression"
	"switchyard.dev/services/platform/panics"
)

// Query is one request that reads a resource, gets a prompt or completes an argument.
type Query struct {
	Asker
	// Method is wire.MethodReadResource, wire.MethodGetPrompt or wire.MethodComplete.
	Method string
	// Server is empty for all servers.
	Server string
	// Name is the URI of the resource or the name of the prompt, as the caller uses it. Of a completion it is what the
	// argument belongs to: a prompt, or where Template is true a template of resources.
	Name     string
	Template bool
	// Arguments are those of the prompt, or the argument that is completed, and Context what a completion depends on: as
	// they arrived, objects, nil for none.
	Arguments, Context json.RawMessage
	// Meta are the members of _meta that are the caller's own, not the protocol's.
	Meta map[string]json.RawMessage
	// Progress gets the reports of the server; nil for none. It is called by one goroutine at a time.
	Progress func(upstream.Progress)
	// Log gets the log messages of the server, in the same way.
	Log    upstream.Log
	Client Client
}

// feature returns the feature that a query needs.
func (q *Query) feature() toolserver.Feature {
	switch q.Method {
	case wire.MethodReadResource:
		return toolserver.FeatureResources
	case wire.MethodGetPrompt:
		return toolserver.FeaturePrompts
	}
	return toolserver.FeatureCompletions
}

// ofResource reports whether the query's name is a URI, or a template of one.
func (q *Query) ofResource() bool { return q.Method == wire.MethodReadResource || q.Template }

// params returns the parameters for a server, by its own name.
func (q *Query) params(name string) []byte {
	text := jsontext.AppendText(nil, name)
	switch q.Method {
	case wire.MethodReadResource:
		return append(append([]byte(`{"uri":`), text...), '}')
	case wire.MethodGetPrompt:
		return append(member(append([]byte(`{"name":`), text...), "arguments", q.Arguments), '}')
	}
	out := []byte(`{"ref":{"type":"ref/prompt","name":`)
	if q.Template {
		out = []byte(`{"ref":{"type":"ref/resource","uri":`)
	}
	out = append(append(out, text...), '}')
	return append(member(member(out, "argument", q.Arguments), "context", q.Context), '}')
}

// member appends a member that isn't the first, if it has a value.
func member(out []byte, name string, value json.RawMessage) []byte {
	if value == nil {
		return out
	}
	return append(append(append(append(out, `,"`...), name...), `":`...), value...)
}

// model returns by what name the ledger has a query. URIs are in none: there is no end of them.
func (q *Query) model(name string) string {
	if q.Method == wire.MethodGetPrompt {
		return q.Method + "/" + name
	}
	return q.Method
}

// Query makes a query, if every check lets it pass. It is billed and recorded as a call of a tool is. The error is an
// *apierr.Error, or a *wire.Error where the server answered with an error of the protocol.
func (c *Caller) Query(ctx context.Context, q *Query) (Answer, error) {
	x := execution{
		caller: c, id: newID(), started: time.Now(), hold: c.Memory.Open(q.Organization, maxAnswer), method: q.Method, path: q.Server,
		request: &Request{Asker: q.Asker, Meta: q.Meta, Progress: q.Progress, Client: q.Client},
	}
	result, err := x.serveQuery(ctx, q)
	x.end(ctx, &result, err)
	return Answer{result, x.serverID(), x.tool}, err
}

// serveQuery makes the checks in their order, then the query.
func (x *execution) serveQuery(ctx context.Context, q *Query) (upstream.Result, error) {
	var err error
	if err = x.resume(); err != nil {
		return upstream.Result{}, err
	}
	x.policy = x.caller.Policy()
	f := facts{method: q.Method}
	merged := q.ofResource() && q.Server == ""
	if !merged {
		if err := x.target(ctx, q, &f); err != nil {
			return upstream.Result{}, err
		}
	}
	if x.grant, err = x.caller.Admission.Admit(memory.NewContext(ctx, x.hold), q.Organization, q.Run, q.KeyTerms); err != nil {
		return upstream.Result{}, err
	}
	ctx = x.grant.Context()
	f.authority = x.grant.Terms().Run
	if merged {
		if err := x.target(ctx, q, &f); err != nil {
			return upstream.Result{}, err
		}
	}
	if x.arguments, err = canonical.Object(q.params(f.tool)); err != nil {
		return upstream.Result{}, unreadableParams(err)
	}
	if err := x.follows(); err != nil {
		return upstream.Result{}, err
	}
	if err := x.permitQuery(ctx, q, &f); err != nil {
		return upstream.Result{}, err
	}
	name := f.tool
	if q.Method == wire.MethodComplete {
		name = ""
	}
	x.ask = func(ctx context.Context) (result upstream.Result, err error) {
		defer panics.Recover(&err)
		return x.caller.Upstream.Query(ctx, x.server, &upstream.Query{
			Organization: q.Organization, Method: q.Method, Name: name, Params: x.arguments, Meta: q.Meta, Progress: q.Progress, Log: q.Log,
			Capabilities: x.offered(), Inputs: x.inputs, State: x.state, Ask: x.live(),
		})
	}
	x.again = func(ctx context.Context) error { return x.recheckQuery(ctx, q, &f) }
	return x.send(ctx)
}

// unreadableParams returns the error of parameters that have no canonical form.
func unreadableParams(err error) error {
	if refused, ok := errors.AsType[*canonical.Error](err); ok {
		return apierr.Invalid("params"+refused.Pointer, refused.Rule)
	}
	return apierr.Internal(err)
}

// target finds the server of a query, and the server's own name of what it is about.
func (x *execution) target(ctx context.Context, q *Query, f *facts) error {
	var err error
	switch f.tool = q.Name; {
	case q.ofResource() && q.Server == "":
		of := upstream.Resources
		if q.Template {
			of = upstream.Templates
		}
		err = x.caller.locate(ctx, &q.Asker, x.policy, f, of)
	default:
		f.entry, f.tool, err = x.caller.find(&q.Asker, Name{q.Server, q.Name})
	}
	if errors.Is(err, definition.ErrToolNotFound) {
		err = ErrResourceNotFound
	}
	if err != nil {
		return err
	}
	x.entry, x.server = f.entry, &f.entry.Server
	x.tool, x.price, x.priced = q.model(f.tool), x.server.Price, priceVersion(x.server)
	x.caller.Listings.Used(x.server.Key())
	x.observe(ctx)
	return nil
}

// permitQuery makes the checks of a query, and takes it from the limits of its run and its server.
func (x *execution) permitQuery(ctx context.Context, q *Query, f *facts) error {
	f.askOf(&q.Asker, x.policy, q.Method, f.tool)
	if err := decideRun(f); err != nil {
		return err
	}
	if err := x.reserve(ctx, f.terms); err != nil {
		return err
	}
	if err := x.trust(f); err != nil {
		return err
	}
	if err := decideOffer(f); err != nil {
		return err
	}
	if err := q.judge(x.policy, f); err != nil {
		return err
	}
	return x.limit(ctx)
}

// recheckQuery makes all checks of a query again, as everything may have changed since they were made.
func (x *execution) recheckQuery(ctx context.Context, q *Query, f *facts) error {
	if err := x.look(ctx, f); err != nil {
		return err
	}
	f.askOf(&q.Asker, x.policy, q.Method, f.tool)
	if err := x.trust(f); err != nil {
		return err
	}
	if err := decideOffer(f); err != nil {
		return err
	}
	return q.judge(x.policy, f)
}

// judge applies the rules that read the arguments.
func (q *Query) judge(policy Policy, f *facts) error {
	asked := question(&q.Asker, f.entry.Server.ID, f.tool)
	asked.Method = q.Method
	if q.Arguments != nil {
		text, err := canonical.Object(q.Arguments)
		if err == nil {
			asked.Arguments, err = expression.Object(text)
		}
		if err != nil {
			return apierr.Internal(err)
		}
	}
	if f.terms, f.denial = policy.Rules.Decide(asked); f.denial != nil {
		return f.denial.Err()
	}
	return decideOffer(f)
}

// askOf completes the facts for one method and what it names.
func (f *facts) askOf(a *Asker, policy Policy, method, name string) {
	asked := question(a, f.entry.Server.ID, name)
	asked.Method = method
	f.method, f.tool = method, name
	f.terms, f.denial = policy.Rules.List(asked)
}

// allowed returns what a run's allowed_tools must match, behind the server and a slash.
func (f *facts) allowed() string {
	if f.method == "" || f.method == toolrule.MethodCall {
		return f.tool
	}
	return f.method + "/" + f.tool
}

// feature returns the feature that the facts are about.
func (f *facts) feature() toolserver.Feature {
	return (&Query{Method: f.method}).feature()
}

// decideOffer returns why something beside tools may not be used; nil if it may. Lists and queries share it.
func decideOffer(f *facts) error {
	if !f.entry.Server.Offers(f.feature()) {
		return ErrNotOffered
	}
	if err := decideRun(f); err != nil {
		return err
	}
	switch {
	case f.denial == nil && !f.level.AtLeast(f.terms.MinimumTrust):
		return ErrUntrusted
	case f.entry.Changed():
		return definition.ErrChanged
	case f.denial != nil:
		return f.denial.Err()
	}
	return nil
}
