package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/platform/apierr"
)

var all = toolserver.Features()

// offering returns a Caller of a world whose server "files" offers everything, and a second one, "docs", that has one of
// its resources too.
func offering(t *testing.T) (*Caller, *world) {
	t.Helper()
	c, w := open(t)
	files := w.servers[0]
	files.Features = all
	docs := &toolserver.Server{Organization: "acme", ID: "docs", Prefix: "docs", URL: "https://docs.example", Timeout: time.Minute, Version: 1, Features: all}
	w.servers, w.levels["docs"] = append(w.servers, docs), trust.Community
	w.offers = map[toolserver.Key]map[upstream.Offer][]upstream.Item{
		files.Key(): {
			upstream.Resources: {item("uri", "file:///b"), item("uri", "file:///a"), item("uri", "note://shared")},
			upstream.Templates: {item("uriTemplate", "file:///{path}")},
			upstream.Prompts:   {item("name", "sum"), item("name", "not exposable")},
		},
		docs.Key(): {upstream.Resources: {item("uri", "note://shared"), item("uri", "doc://one")}, upstream.Prompts: {item("name", "sum")}},
	}
	w.silent = make(map[toolserver.Key]error)
	return c, w
}

func item(key, value string) upstream.Item {
	return upstream.Item{Key: value, Text: json.RawMessage(fmt.Sprintf(`{%q: %q, "x":1}`, key, value))}
}

func names(o Offers) (of []string) {
	for _, item := range o.Items {
		of = append(of, item.Name)
	}
	return of
}

func asker() *Asker {
	return &Asker{RequestID: "r1", Organization: "acme", Key: "k1", Service: "edge", User: "ann"}
}

func TestOffers(t *testing.T) {
	c, w := offering(t)
	for name, want := range map[string]struct {
		server string
		of     upstream.Offer
		names  []string
	}{
		"resources of one": {"files", upstream.Resources, []string{"file:///a", "file:///b", "note://shared"}},
		"resources of all": {"", upstream.Resources, []string{"doc://one", "file:///a", "file:///b"}},
		"templates":        {"", upstream.Templates, []string{"file:///{path}"}},
		"prompts of one":   {"files", upstream.Prompts, []string{"not exposable", "sum"}},
		"prompts of all":   {"", upstream.Prompts, []string{"docs__sum", "fs__sum"}},
	} {
		got, err := c.Offers(t.Context(), asker(), want.server, want.of)
		if diff := cmp.Diff(want.names, names(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if ambiguous := name == "resources of all"; ambiguous != slices.Equal(got.Ambiguous, []string{"note://shared"}) {
			t.Errorf("%s: ambiguous %v", name, got.Ambiguous)
		}
	}
	w.silent[w.servers[1].Key()] = errors.New("away")
	got, err := c.Offers(t.Context(), asker(), "", upstream.Prompts)
	if err != nil || !slices.Equal(names(got), []string{"fs__sum"}) || !slices.Equal(got.Unavailable, []string{"docs"}) {
		t.Errorf("with a server away: %+v %v", got, err)
	}
	_, err = c.Offers(t.Context(), asker(), "docs", upstream.Prompts)
	wants(t, err, apierr.ReasonUnavailable)
	w.servers[1].Features = nil
	_, err = c.Offers(t.Context(), asker(), "docs", upstream.Prompts)
	wants(t, err, ReasonNotOffered)
	w.stale = errors.New("old")
	_, err = c.Offers(t.Context(), asker(), "", upstream.Prompts)
	wants(t, err, apierr.ReasonUnavailable)
}

// What passes is sent once, by the server's own name and in the canonical form, and is billed and recorded.
func TestQueries(t *testing.T) {
	for name, c := range map[string]struct {
		query                 Query
		server, params, model string
	}{
		"a resource of one":     {Query{Method: wire.MethodReadResource, Server: "files", Name: "file:///c"}, "files", `{"uri":"file:///c"}`, "resources/read"},
		"a resource of all":     {Query{Method: wire.MethodReadResource, Name: "doc://one"}, "docs", `{"uri":"doc://one"}`, "resources/read"},
		"a prompt of one":       {Query{Method: wire.MethodGetPrompt, Server: "docs", Name: "sum", Arguments: json.RawMessage(`{"b":"2", "a":"1"}`)}, "docs", `{"arguments":{"a":"1","b":"2"},"name":"sum"}`, "prompts/get/sum"},
		"a prompt of all":       {Query{Method: wire.MethodGetPrompt, Name: "fs__sum"}, "files", `{"name":"sum"}`, "prompts/get/sum"},
		"a completion":          {Query{Method: wire.MethodComplete, Name: "fs__sum", Arguments: json.RawMessage(`{"name":"a","value":"b"}`), Context: json.RawMessage(`{"arguments":{}}`)}, "files", `{"argument":{"name":"a","value":"b"},"context":{"arguments":{}},"ref":{"name":"sum","type":"ref/prompt"}}`, "completion/complete"},
		"a template's variable": {Query{Method: wire.MethodComplete, Name: "file:///{path}", Template: true, Arguments: json.RawMessage(`{"name":"path","value":""}`)}, "files", `{"argument":{"name":"path","value":""},"ref":{"type":"ref/resource","uri":"file:///{path}"}}`, "completion/complete"},
	} {
		t.Run(name, func(t *testing.T) {
			caller, w := offering(t)
			w.servers[1].Price = w.servers[0].Price
			w.grant = admission.Terms{Reserves: true}
			c.query.Asker = *asker()
			answer, err := caller.Query(t.Context(), &c.query)
			if err != nil || string(answer.Text) != `{"from":"`+c.server+`"}` || answer.Server != c.server {
				t.Fatalf("%+v %v", answer, err)
			}
			if len(w.queried) != 1 || string(w.queried[0].Params) != c.params || w.queried[0].Organization != "acme" {
				t.Errorf("sent %+v", w.queried)
			}
			if len(w.rows) != 1 || w.rows[0].Model != c.model || w.rows[0].Provider != "mcp/"+c.server || w.rows[0].Cost != 7e9 ||
				w.rows[0].Operation != ledger.OperationTool || w.rows[0].Outcome != ledger.OutcomeCompleted || len(w.reserved) != 1 {
				t.Errorf("billed %+v, reserved %v", w.rows, w.reserved)
			}
			if len(w.records) != 1 || !json.Valid(w.records[0].Request.Raw.Body) || string(w.records[0].Answer.Written) != string(answer.Text) {
				t.Errorf("recorded %+v", w.records)
			}
		})
	}
}

func TestRefusedQueries(t *testing.T) {
	read := func(server, uri string) Query {
		return Query{Method: wire.MethodReadResource, Server: server, Name: uri}
	}
	prompt := Query{Method: wire.MethodGetPrompt, Server: "files", Name: "sum", Arguments: json.RawMessage(`{"of":"secrets"}`)}
	limited := &run.Run{Status: run.Active, Limits: run.Limits{AllowedTools: []string{"files/sum", "files/resources/read/file:*"}}}
	for name, c := range map[string]struct {
		query  Query
		change func(w *world)
		reason apierr.Reason
	}{
		"an unknown server":       {read("none", "file:///a"), nil, apierr.ReasonNotFound},
		"not listed":              {read("", "file:///c"), nil, ReasonResourceNotFound},
		"ambiguous":               {read("", "note://shared"), nil, ReasonAmbiguous},
		"whose is not known":      {read("", "file:///a"), func(w *world) { w.silent[w.servers[1].Key()] = errors.New("away") }, apierr.ReasonUnavailable},
		"not offered":             {read("files", "file:///a"), func(w *world) { w.servers[0].Features = nil }, ReasonNotOffered},
		"a prompt without prefix": {Query{Method: wire.MethodGetPrompt, Name: "sum"}, nil, ReasonResourceNotFound},
		"untrusted":               {prompt, func(w *world) { w.levels["files"] = trust.Untrusted }, ReasonUntrusted},
		"trust is away":           {prompt, func(w *world) { w.stale = errors.New("old") }, apierr.ReasonUnavailable},
		"suspended":               {prompt, func(w *world) { w.refused = run.ErrToolNotAllowed }, run.ErrToolNotAllowed.Reason},
		"a rule":                  {prompt, func(w *world) { w.rule(toolrule.Rule{Methods: []string{toolrule.MethodPrompt}, Deny: true}) }, toolrule.ReasonDenied},
		"a rule with arguments": {prompt, func(w *world) {
			w.rule(toolrule.Rule{Methods: []string{toolrule.MethodPrompt}, When: `args.of == "secrets" && method == "prompts/get"`, Deny: true})
		}, toolrule.ReasonDenied},
		"needs a run":        {prompt, func(w *world) { w.settings.RequireRun = true }, toolrule.ReasonRunRequired},
		"not the run's":      {prompt, func(w *world) { w.grant.Run = limited }, run.ErrToolNotAllowed.Reason},
		"no budget":          {prompt, func(w *world) { w.grant.Reserves, w.reserveErr = true, run.ErrToolNotAllowed }, run.ErrToolNotAllowed.Reason},
		"the server changed": {prompt, serverChanges, definition.ReasonChanged},
		"the ledger is away": {prompt, func(w *world) { w.ready = errors.New("full") }, apierr.ReasonUnavailable},
		"bad arguments":      {Query{Method: wire.MethodGetPrompt, Server: "files", Name: "sum", Arguments: json.RawMessage(`{"n":9007199254740993}`)}, nil, apierr.ReasonInvalidRequest},
		"too many at a time": {prompt, func(w *world) { w.servers[0].PerMinute = 1; w.settings.MaxToolCalls = -1 }, ""},
		"another method's rule": {prompt, func(w *world) {
			w.rule(toolrule.Rule{Deny: true})
			w.rule(toolrule.Rule{Methods: []string{toolrule.MethodRead}, Deny: true})
		}, ""},
		"the run allows it": {read("files", "file:///a"), func(w *world) { w.grant.Run = limited }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			caller, w := offering(t)
			if c.change != nil {
				c.change(w)
			}
			c.query.Asker = *asker()
			_, err := caller.Query(t.Context(), &c.query)
			if c.reason == "" {
				if err != nil || len(w.queried) != 1 {
					t.Fatalf("%v, sent %d", err, len(w.queried))
				}
				return
			}
			wants(t, err, c.reason)
			if len(w.queried) > 0 || len(w.rows) > 0 {
				t.Errorf("sent %v, billed %v", w.queried, w.rows)
			}
		})
	}
}

// serverChanges gives the server "files" a reviewed tool whose definition has changed.
func serverChanges(w *world) {
	files := w.servers[0]
	before, now := tool(files, "d"), tool(files, "d")
	before.Digest[31], before.Present, now.Status = 1, false, definition.Pending
	w.tools[files.Key()] = append(w.tools[files.Key()], before, now)
}

func TestQueriesAreLimited(t *testing.T) {
	c, w := offering(t)
	w.servers[0].PerMinute = 1
	for i, reason := range []apierr.Reason{"", apierr.ReasonRateLimited} {
		_, err := c.Query(t.Context(), &Query{Asker: *asker(), Method: wire.MethodGetPrompt, Server: "files", Name: "sum"})
		if reason == "" {
			if err != nil {
				t.Fatalf("query %d: %v", i, err)
			}
			continue
		}
		wants(t, err, reason)
	}
}

// Something is listed exactly if a query reaches its server, and both exactly if every rule lets it: alone and among what
// all servers offer.
func TestOffersShowWhatQueriesPass(t *testing.T) {
	c, w := offering(t)
	rapid.Check(t, func(t *rapid.T) {
		hasRun := w.drawOffers(t)
		a := Asker{Organization: "acme"}
		if hasRun {
			a.Run = "run-1"
		}
		for _, of := range []upstream.Offer{upstream.Resources, upstream.Prompts} {
			method, _ := useOf(of)
			for _, server := range append([]*toolserver.Server{{}}, w.servers...) {
				list, err := c.Offers(t.Context(), &a, server.ID, of)
				if err != nil && !errors.Is(err, ErrNotOffered) && !errors.Is(err, ErrServerNotFound) {
					t.Fatal(err)
				}
				for _, name := range w.named(server, of) {
					w.queried, w.rows, w.records, w.steps, w.used = nil, nil, nil, nil, nil
					_, err := c.Query(t.Context(), &Query{Asker: a, Method: method, Server: server.ID, Name: name})
					if (err == nil) != (len(w.queried) == 1) || len(w.queried) != len(w.rows) {
						t.Fatalf("%s: %v, sent %d, billed %d", name, err, len(w.queried), len(w.rows))
					}
					if listed := slices.Contains(names(list), name); listed != (err == nil) {
						t.Fatalf("%s %s of %q: listed %t, reached %v", method, name, server.ID, listed, err)
					}
				}
			}
		}
	})
}

// drawOffers fills a world with servers that offer things, levels, rules and perhaps a run.
func (w *world) drawOffers(t *rapid.T) (hasRun bool) {
	w.servers, w.tools, w.levels, w.settings = nil, map[toolserver.Key][]definition.Reviewed{}, map[string]trust.Level{}, toolrule.Settings{}
	w.offers, w.grant = map[toolserver.Key]map[upstream.Offer][]upstream.Item{}, admission.Terms{}
	if hasRun = rapid.Bool().Draw(t, "has a run"); hasRun {
		w.grant.Run = &run.Run{Status: run.Active, Limits: run.Limits{AllowedTools: rapid.SampledFrom([][]string{
			nil, {"*/*"}, {"s0/*"}, {"*/prompts/get/a"}, {"*/resources/read/x:*", "s1/prompts/get/*"}, {"*/a"},
		}).Draw(t, "allowed")}}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "servers") {
		s := &toolserver.Server{ID: fmt.Sprint("s", i), Prefix: fmt.Sprint("p-", i), Timeout: 1e9, Version: 1}
		s.Organization = rapid.SampledFrom([]string{"acme", "", "other"}).Draw(t, "organization")
		s.Features = rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID[toolserver.Feature]).Draw(t, "features")
		w.servers = append(w.servers, s)
		w.levels[s.ID] = rapid.SampledFrom(levels).Draw(t, "level")
		offers := make(map[upstream.Offer][]upstream.Item)
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c d"}), rapid.ID[string]).Draw(t, "prompts") {
			offers[upstream.Prompts] = append(offers[upstream.Prompts], item("name", name))
		}
		for _, uri := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x:1", "x:2", "y:1"}), rapid.ID[string]).Draw(t, "resources") {
			offers[upstream.Resources] = append(offers[upstream.Resources], item("uri", uri))
		}
		w.offers[s.Key()] = offers
		if rapid.IntRange(0, 5).Draw(t, "changed") == 0 {
			before, now := tool(s, "d"), tool(s, "d")
			before.Digest[31], before.Present, now.Status = 1, false, definition.Pending
			w.tools[s.Key()] = []definition.Reviewed{before, now}
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		w.rule(toolrule.Rule{
			Servers: rapid.SampledFrom([][]string{nil, {"s0"}, {"s1"}}).Draw(t, "of"),
			Tools:   rapid.SampledFrom([][]string{nil, {"a"}, {"x:*"}}).Draw(t, "named"),
			Methods: rapid.SliceOfDistinct(rapid.SampledFrom(toolrule.Methods()), rapid.ID[string]).Draw(t, "methods"),
			Deny:    rapid.Bool().Draw(t, "denied"), MinimumTrust: rapid.SampledFrom(levels).Draw(t, "minimum"),
			RequireRun: rapid.IntRange(0, 3).Draw(t, "needs run") == 0,
		})
	}
	return hasRun
}

// named returns the names by which a caller may ask one server, or all, for what was drawn.
func (w *world) named(server *toolserver.Server, of upstream.Offer) (names []string) {
	for _, s := range w.servers {
		if server.ID != "" && s.ID != server.ID {
			continue
		}
		for _, item := range w.offers[s.Key()][of] {
			name := item.Key
			if server.ID == "" && of == upstream.Prompts {
				name = s.Exposed(name)
			}
			names = append(names, name)
		}
	}
	return names
}
