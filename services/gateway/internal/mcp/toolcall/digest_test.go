package toolcall

import (
	"errors"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
)

// A digest is another one exactly when another list is answered.
func TestDigest(t *testing.T) {
	c, w := offering(t)
	digest := func(of Listed) uint64 {
		t.Helper()
		got, whole, err := c.Digest(t.Context(), asker(), "", of)
		if err != nil || !whole || got == 0 {
			t.Fatalf("%d %t %v", got, whole, err)
		}
		return got
	}
	all := func() (d [Lists]uint64) {
		for of := range d {
			d[of] = digest(Listed(of))
		}
		return d
	}
	before := all()
	if again := all(); again != before {
		t.Errorf("%v, then %v", before, again)
	}
	files := w.servers[0].Key()
	for name, step := range map[string]struct {
		change, back func()
		changed      [Lists]bool
	}{
		"a definition": {func() { w.tools[files][0].Text = []byte(`{"name":"read"}`) }, func() { w.tools[files][0] = tool(w.servers[0], "read") }, [Lists]bool{true, false, false}},
		"a template": {
			func() { w.offers[files][upstream.Templates][0].Text = []byte(`{}`) },
			func() { w.offers[files][upstream.Templates][0] = item("uriTemplate", "file:///{path}") },
			[Lists]bool{false, true, false},
		},
		"a prompt's rule": {
			func() {
				w.rule(toolrule.Rule{Methods: []string{toolrule.MethodPrompt}, Tools: []string{"sum"}, Deny: true})
			},
			func() { w.settings.Rules = nil },
			[Lists]bool{false, false, true},
		},
		"trust": {func() { w.levels["files"] = trust.Untrusted }, func() { w.levels["files"] = trust.Community }, [Lists]bool{true, true, true}},
	} {
		step.change()
		for of, now := range all() {
			if (now != before[of]) != step.changed[of] {
				t.Errorf("%s: list %d changed: %t", name, of, now != before[of])
			}
		}
		if step.back(); all() != before {
			t.Errorf("%s: not as before", name)
		}
	}
	w.silent[files] = errors.New("away")
	if _, whole, err := c.Digest(t.Context(), asker(), "", ListedPrompts); whole || err != nil {
		t.Errorf("without a server: %t %v", whole, err)
	}
	if _, _, err := c.Digest(t.Context(), asker(), "none", ListedTools); err == nil {
		t.Error("of an unknown server")
	}
}
