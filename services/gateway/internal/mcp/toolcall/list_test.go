package toolcall

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/apierr"
)

var acme = &Asker{Organization: "acme"}

func TestList(t *testing.T) {
	c, _ := open(t)
	list, err := c.List(t.Context(), acme, "")
	if err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "fs__read" || list.Tools[1].Name != "fs__write" {
		t.Fatalf("%+v %v", list, err)
	}
	if !strings.Contains(string(list.Tools[0].Definition), `"name":"read"`) || !strings.Contains(string(list.Tools[0].Definition), `"x":1`) {
		t.Errorf("definition %s", list.Tools[0].Definition)
	}
	if list, err = c.List(t.Context(), acme, "files"); err != nil || list.Tools[0].Name != "read" {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := c.List(t.Context(), acme, "other"); !errors.Is(err, ErrServerNotFound) {
		t.Errorf("an unknown server: %v", err)
	}
	if _, err := c.List(t.Context(), &Asker{Organization: "globex"}, "files"); !errors.Is(err, ErrServerNotFound) {
		t.Errorf("the server of another organization: %v", err)
	}
}

func TestListRefuses(t *testing.T) {
	c, w := open(t)
	w.refused = organization.ErrSuspended
	if _, err := c.List(t.Context(), acme, ""); !errors.Is(err, organization.ErrSuspended) {
		t.Errorf("suspended: %v", err)
	}
	w.refused, w.stale = nil, errors.New("away")
	_, err := c.List(t.Context(), acme, "")
	wants(t, err, apierr.ReasonUnavailable)
}

// A server that can't be listed leaves the tools of the others, and is named.
func TestListWithoutOneServer(t *testing.T) {
	c, w := open(t)
	empty := *w.servers[0]
	empty.ID, empty.Prefix = "empty", "none"
	w.servers = append(w.servers, &empty)
	list, err := c.List(t.Context(), acme, "")
	if err != nil || len(list.Tools) != 2 || len(list.Unavailable) > 0 || len(w.used) != 2 {
		t.Errorf("%+v %v, used %v", list, err, w.used)
	}
	w.away = errors.New("away")
	if list, err = c.List(t.Context(), acme, ""); err != nil || len(list.Tools) > 0 || !slices.Equal(list.Unavailable, []string{"fs"}) {
		t.Errorf("%+v %v", list, err)
	}
	_, err = c.List(t.Context(), acme, "files")
	wants(t, err, apierr.ReasonUnavailable)
}

// A tool whose name clients don't take is listed by its server alone, and can't be called by its exposed name.
func TestUnexposedNames(t *testing.T) {
	c, w := open(t)
	s := w.servers[0]
	long := strings.Repeat("a", 125)
	w.tools[s.Key()] = []definition.Reviewed{tool(s, long), tool(s, "b c"), tool(s, "d__e")}
	list, err := c.List(t.Context(), acme, "")
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "fs__d__e" {
		t.Fatalf("%+v %v", list, err)
	}
	if list, err = c.List(t.Context(), acme, "files"); err != nil || len(list.Tools) != 3 {
		t.Errorf("%+v %v", list, err)
	}
	for _, name := range []string{long, "b c"} {
		_, err := c.Call(t.Context(), request(Name{Tool: s.Exposed(name)}, ""))
		wants(t, err, definition.ReasonToolNotFound)
		if _, err := c.Call(t.Context(), request(Name{"files", name}, "")); err != nil {
			t.Errorf("%.9s: %v", name, err)
		}
	}
	if _, err := c.Call(t.Context(), request(Name{Tool: "fs__d__e"}, "")); err != nil || w.sent[2].Tool != "d__e" {
		t.Errorf("%v %+v", err, w.sent)
	}
}

func TestDefinition(t *testing.T) {
	c, w := open(t)
	if text, ok := c.Definition(t.Context(), acme, Name{Tool: "fs__read"}); !ok || !strings.Contains(string(text), `"name":"read"`) {
		t.Errorf("%s %t", text, ok)
	}
	for _, name := range []Name{{"", "read"}, {"files", "other"}, {"other", "read"}} {
		if _, ok := c.Definition(t.Context(), acme, name); ok {
			t.Errorf("%v is known", name)
		}
	}
	w.away = context.DeadlineExceeded
	if _, ok := c.Definition(t.Context(), acme, Name{"files", "read"}); ok {
		t.Error("known while the listing is away")
	}
	if _, _, ok := toolserver.Split("read"); ok {
		t.Error("a name without a prefix is split")
	}
}
