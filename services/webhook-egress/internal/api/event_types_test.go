package api_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/schema"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/event"
	"switchyard.dev/services/webhook-egress/internal/eventtype"
)

// registered is a store of event types, by organization and name. It is used by one goroutine at a time.
type registered map[string]eventtype.Type

func key(organization, name string) string { return organization + "\x00" + name }

func (s registered) Put(_ context.Context, organization string, t eventtype.Type, limit int) (time.Time, bool, error) {
	before, known := s[key(organization, t.Name)]
	if !known && len(s) >= limit {
		return time.Time{}, false, apierr.New(apierr.KindConflict, apierr.ReasonConflict, "full")
	}
	t.Created = t.Updated
	if known {
		t.Created = before.Created
	}
	s[key(organization, t.Name)] = t
	return t.Created, !known, nil
}

func (s registered) Get(_ context.Context, organization, name string) (eventtype.Type, error) {
	t, ok := s[key(organization, name)]
	if !ok {
		return t, apierr.NotFound("event type")
	}
	return t, nil
}

func (s registered) Rule(_ context.Context, organization, name string) (rule eventtype.Rule, found bool, err error) {
	t, ok := s[key(organization, name)]
	if !ok || len(t.Schema) == 0 || t.Validation == eventtype.Off {
		return eventtype.Rule{}, false, nil
	}
	return eventtype.Rule{Validation: t.Validation, Hash: t.Hash()}, true, nil
}

func (s registered) List(_ context.Context, organization, after string, limit int) (page []eventtype.Summary, err error) {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		of, name, _ := strings.Cut(k, "\x00")
		if of == organization && name > after && len(page) < limit {
			t := s[k]
			page = append(page, eventtype.Summary{
				Name: name, Description: t.Description, HasSchema: len(t.Schema) > 0, Validation: t.Validation,
				Deprecated: t.Deprecated, Created: t.Created, Updated: t.Updated,
			})
		}
	}
	return page, nil
}

func (s registered) Delete(ctx context.Context, organization, name string) error {
	_, err := s.Get(ctx, organization, name)
	delete(s, key(organization, name))
	return err
}

// types returns an empty registry of at most 3 types of organizations.
func types(t *testing.T) *eventtype.Service {
	t.Helper()
	return eventtype.NewService(eventtype.Options{
		Store: registered{}, Limit: 3, Observe: func(eventtype.Verdict) {}, Log: testkit.Logger(t), Now: func() time.Time { return moment },
	})
}

func TestEventTypes(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	const at = "/v1/event-types/order.paid:v2%2Feu"
	w, _ := call(t, h, "PUT", at, `{"schema":{"required":["id"]},"examples":[{"id": 7}],"description":"An order is paid."}`)
	want := `{"type":"order.paid:v2/eu","description":"An order is paid.","schema":{"required":["id"]},"validation":"reject","examples":[{"id": 7}],` +
		`"deprecated":false,"origin":"organization","created_at":"2023-11-14T22:13:20Z","updated_at":"2023-11-14T22:13:20Z"}`
	if w.Code != http.StatusCreated || w.Body.String() != want {
		t.Errorf("put: %d %s\nwant %s", w.Code, w.Body, want)
	}
	if w, _ := call(t, h, "GET", at, ""); w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("get: %d %s", w.Code, w.Body)
	}
	w, document := call(t, h, "PUT", at, `{"validation":"off","deprecated":true}`)
	if w.Code != http.StatusOK || document["schema"] != nil || document["deprecated"] != true || document["validation"] != "off" {
		t.Errorf("put again: %d %s", w.Code, w.Body)
	}
	if w, _ := call(t, h, "GET", at, "", "X-Organization-Id", "other"); w.Code != http.StatusNotFound {
		t.Errorf("another organization: %d", w.Code)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		if w, _ := call(t, h, method, at, map[string]string{"PUT": "{}"}[method], "X-Owner-Id", "ann"); w.Code != http.StatusForbidden {
			t.Errorf("%s for an owner: %d", method, w.Code)
		}
	}
	for range 2 {
		w, _ = call(t, h, "DELETE", at, "")
	}
	if w.Code != http.StatusNotFound {
		t.Errorf("deleted twice: %d", w.Code)
	}
}

func TestHouseEventTypes(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	w, document := call(t, h, "GET", "/v1/event-types/"+houseevent.BudgetThreshold, "")
	if schema, _ := document["schema"].(map[string]any); w.Code != http.StatusOK || document["origin"] != "switchyard" || schema["title"] != houseevent.BudgetThreshold {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		w, document := call(t, h, method, "/v1/event-types/"+houseevent.BudgetThreshold, map[string]string{"PUT": "{}"}[method])
		if w.Code != http.StatusBadRequest || !strings.HasPrefix(fmt.Sprint(document["reason"]), "type: must not begin with `switchyard.`") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	if w, _ := call(t, h, "GET", "/v1/event-types/switchyard.nothing", ""); w.Code != http.StatusNotFound {
		t.Errorf("a type that doesn't exist: %d", w.Code)
	}
}

// All pages together have each type once, in the order of the names.
func TestListEventTypes(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	var want []string
	for _, e := range houseevent.Types() {
		want = append(want, e.Name)
	}
	for _, name := range []string{"a", "t.z", "order.paid"} {
		call(t, h, "PUT", "/v1/event-types/"+name, `{"schema":true}`)
		want = append(want, name)
	}
	slices.Sort(want)
	pages := func(query string) (names []string) {
		for cursor := ""; ; {
			w, document := call(t, h, "GET", "/v1/event-types?limit=3&cursor="+cursor+query, "")
			page, _ := document["event_types"].([]any)
			if w.Code != http.StatusOK || len(page) > 3 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			for _, e := range page {
				entry, _ := e.(map[string]any)
				names = append(names, fmt.Sprint(entry["type"]))
				if entry["has_schema"] != true || (entry["origin"] == "switchyard") != strings.HasPrefix(names[len(names)-1], "switchyard.") {
					t.Errorf("entry %v", entry)
				}
			}
			if cursor = fmt.Sprint(document["next_cursor"]); cursor == "" {
				return names
			}
		}
	}
	if diff := cmp.Diff(want, pages("")); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "order.paid", "t.z"}, pages("&origin=organization")); diff != "" {
		t.Errorf("of the organization (-want +got):\n%s", diff)
	}
	if n := len(pages("&origin=switchyard")); n != len(want)-3 {
		t.Errorf("%d types of Switchyard", n)
	}
	if w, _ := call(t, h, "PUT", "/v1/event-types/one.more", "{}"); w.Code != http.StatusConflict {
		t.Errorf("one more than the limit: %d", w.Code)
	}
}

func TestPutEventTypeRefuses(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	for name, tt := range map[string]struct{ path, body, reason string }{
		"a schema's keyword":  {"a", `{"schema":{"properties":{"a":{"minLength":"x"}}}}`, "schema: /properties/a/minLength: got string, want integer"},
		"no schema":           {"a", `{"schema":[]}`, "schema: must be an object or a boolean"},
		"another document":    {"a", `{"schema":{"$ref":"https://example.com"}}`, "schema: /$ref: must begin with #: a schema refers only to itself"},
		"a large schema":      {"a", `{"schema":{"title":"` + strings.Repeat("x", 64<<10) + `"}}`, "schema: "},
		"an example":          {"a", `{"schema":{"properties":{"n":{"type":"integer"}}},"examples":[{"n":1},{"n":"sk-1"}]}`, "examples[1]: breaks the schema: /n: type: must be integer"},
		"an example's form":   {"a", `{"examples":[[]]}`, "examples[0]: must be a JSON object"},
		"many examples":       {"a", `{"examples":[` + strings.Repeat("{},", 10) + `{}]}`, "examples: "},
		"large examples":      {"a", `{"examples":[{"a":"` + strings.Repeat("x", 40<<10) + `"},{"a":"` + strings.Repeat("x", 40<<10) + `"}]}`, "examples: must not be larger than 65536 bytes together"},
		"a validation":        {"a", `{"validation":"maybe"}`, "validation: "},
		"a long name":         {strings.Repeat("a", 129), `{}`, "type: must not be longer than 128 characters"},
		"a name of no type":   {"a%20b", `{}`, "type: "},
		"a long description":  {"a", `{"description":"` + strings.Repeat("x", 2049) + `"}`, "description: "},
		"NUL in the text":     {"a", `{"description":"\u0000"}`, "description: must not hold a zero byte"},
		"a page of none":      {"?limit=0", "", "limit: "},
		"another list's page": {"?cursor=ZW5kcG9pbnQ6YQ", "", "cursor: is not a cursor of this list"},
	} {
		t.Run(name, func(t *testing.T) {
			method, path := "PUT", "/v1/event-types/"+tt.path
			if strings.HasPrefix(tt.path, "?") {
				method, path = "GET", "/v1/event-types"+tt.path
			}
			w, document := call(t, h, method, path, tt.body)
			reason := fmt.Sprint(document["reason"])
			if w.Code != http.StatusBadRequest || !strings.HasPrefix(reason, tt.reason) || strings.Contains(reason, "sk-1") {
				t.Errorf("%d %.300s, want %s", w.Code, w.Body, tt.reason)
			}
		})
	}
}

func TestEventWarnings(t *testing.T) {
	d := &domain{result: event.Result{Warnings: []schema.Violation{{Pointer: "/a", Rule: "type: must be string"}}}}
	_, document := call(t, newServer(t, d).Handler(), "POST", "/v1/events", `{"event_type":"order.paid","payload":{"a":1}}`)
	if diff := cmp.Diff([]any{map[string]any{"pointer": "/a", "rule": "type: must be string"}}, document["warnings"]); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
