package toolcall

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/serving/admission"
)

// toolCase is one tool of a world, and whether the words of the rules, not the code, let it be called.
type toolCase struct {
	server *toolserver.Server
	name   string
	may    bool
}

var levels = []trust.Level{trust.Untrusted, trust.Community, trust.Verified, trust.FirstParty}

// draw fills a world with servers, reviews, levels, rules and perhaps a run.
func (w *world) draw(t *rapid.T) (tools []toolCase, hasRun bool) {
	w.servers, w.tools, w.levels, w.settings = nil, map[toolserver.Key][]definition.Reviewed{}, map[string]trust.Level{}, toolrule.Settings{}
	w.grant = admission.Terms{}
	hasRun = rapid.Bool().Draw(t, "has a run")
	if hasRun {
		w.grant.Run = &run.Run{Status: run.Active, Limits: run.Limits{AllowedTools: []string{"none/none"}}}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "servers") {
		s := &toolserver.Server{ID: fmt.Sprint("s", i), Prefix: fmt.Sprint("p-", i), Timeout: 1e9, Version: 1}
		s.Organization = rapid.SampledFrom([]string{"acme", "", "other"}).Draw(t, "organization")
		w.servers = append(w.servers, s)
		known, level := rapid.Bool().Draw(t, "known"), rapid.SampledFrom(levels).Draw(t, "level")
		if known {
			w.levels[s.ID] = level
		} else {
			level = trust.Untrusted
		}
		changed := rapid.IntRange(0, 3).Draw(t, "changed") == 0
		var listing []definition.Reviewed
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(0, 3).Draw(t, "tools")] {
			of := tool(s, name)
			of.Status = rapid.SampledFrom([]definition.Status{definition.Approved, definition.Approved, definition.Pending, definition.Rejected}).Draw(t, "status")
			of.Present = rapid.IntRange(0, 3).Draw(t, "present") > 0
			listing = append(listing, of)
			rule := toolrule.Rule{Name: "a rule", Servers: []string{s.ID}, Tools: []string{name}, MinimumTrust: rapid.SampledFrom(levels).Draw(t, "minimum")}
			rule.RequireRun = rapid.IntRange(0, 3).Draw(t, "needs run") == 0
			rule.Deny = rapid.IntRange(0, 3).Draw(t, "denied") == 0
			w.rule(rule)
			minimum := max(1, slices.Index(levels, rule.MinimumTrust)) // The policy's own is COMMUNITY.
			allowed := rapid.IntRange(0, 3).Draw(t, "allowed") > 0
			if hasRun && allowed {
				w.grant.Run.Limits.AllowedTools = append(w.grant.Run.Limits.AllowedTools, s.ID+"/"+name)
			}
			tools = append(tools, toolCase{s, name, s.Organization != "other" &&
				(!rule.RequireRun || hasRun) && (!hasRun || allowed) &&
				slices.Index(levels, level) >= minimum &&
				of.Present && of.Status == definition.Approved && !changed && !rule.Deny})
		}
		if changed {
			before, now := tool(s, "d"), tool(s, "d")
			before.Digest[31], before.Present, now.Status = 1, false, definition.Pending
			listing = append(listing, before, now)
		}
		w.tools[s.Key()] = listing
	}
	return tools, hasRun
}

// A tool is listed exactly if a call reaches its server, and both exactly if every rule lets it: alone and among the
// tools of all servers.
func TestListsShowWhatCallsPass(t *testing.T) {
	c, w := open(t)
	rapid.Check(t, func(t *rapid.T) {
		tools, hasRun := w.draw(t)
		asker := Asker{Organization: "acme"}
		if hasRun {
			asker.Run = "run-1"
		}
		names := func(server string) []string {
			list, err := c.List(t.Context(), &asker, server)
			if err != nil && !errors.Is(err, ErrServerNotFound) {
				t.Fatal(err)
			}
			var all []string
			for _, tool := range list.Tools {
				all = append(all, tool.Name)
			}
			return all
		}
		reaches := func(name Name) bool {
			w.sent, w.rows, w.records, w.steps, w.used = nil, nil, nil, nil, nil
			_, err := c.Call(t.Context(), &Request{Asker: asker, Tool: name})
			if (err == nil) != (len(w.sent) == 1) || len(w.sent) != len(w.rows) {
				t.Fatalf("%v: %v, sent %d, billed %d", name, err, len(w.sent), len(w.rows))
			}
			return err == nil
		}
		merged := names("")
		if !slices.IsSorted(merged) {
			t.Fatalf("not in order: %v", merged)
		}
		all := 0
		for _, d := range tools {
			own := slices.Contains(names(d.server.ID), d.name)
			exposed := slices.Contains(merged, d.server.Exposed(d.name))
			if called, calledExposed := reaches(Name{d.server.ID, d.name}), reaches(Name{"", d.server.Exposed(d.name)}); own != d.may || exposed != d.may || called != d.may || calledExposed != d.may {
				t.Fatalf("%s %s: listed %t, among all %t, called %t, by its exposed name %t, want %t",
					d.server.ID, d.name, own, exposed, called, calledExposed, d.may)
			}
			if d.may {
				all++
			}
		}
		if len(merged) != all {
			t.Fatalf("listed %v, want %d tools", merged, all)
		}
	})
}
