package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/postgres"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func target(vendor, model string) provider.Target {
	return provider.Target{Provider: vendor, Model: model}
}

// steeringStore returns the store of another replica, which notifies no replica of its changes.
func (b *bench) steeringStore() steering.Store {
	return postgres.NewSteering(postgres.NewControl(b.pool, func(context.Context, control.Topic, int64) {}))
}

func TestCatalogIsOpen(t *testing.T) {
	b := setup(t)
	var page struct {
		Models []fields `json:"models"`
		Next   string   `json:"next_cursor"`
	}
	var all []string
	for cursor := ""; ; cursor = page.Next {
		page.Models = nil
		b.visit(t, "", "GET", "/v1/models/catalog?limit=3&cursor="+cursor, "").in(t, http.StatusOK, &page)
		for _, m := range page.Models {
			all = append(all, fmt.Sprint(m["provider"], "/", m["model_id"]))
		}
		if page.Next == "" {
			break
		}
	}
	if got := strings.Join(all, " "); got != "fifth/eyes first/ancient fourth/shared keyless/nobody sandbox/sandbox second/spare third/shared" {
		t.Error(got)
	}
	b.visit(t, "", "GET", "/v1/models/catalog?operation=embeddings", "").in(t, http.StatusOK, &page)
	for _, m := range page.Models {
		if !strings.Contains(fmt.Sprint(m["operations"]), "embeddings") {
			t.Errorf("%v", m)
		}
	}
	var card fields
	b.visit(t, "", "GET", "/v1/models/catalog/First", "").in(t, http.StatusOK, &card)
	has(t, card, fields{"provider": "first", "display_name": "The first", "dialect": "openai"})
	if n := len(card["models"].([]any)); n != 1 {
		t.Errorf("%d models, want 1", n)
	}
	b.visit(t, "", "GET", "/v1/models/catalog/nobody", "").refused(t, http.StatusNotFound, "not_found", "provider")
	b.visit(t, "", "GET", "/v1/models/catalog?cursor=nonsense", "").refused(t, http.StatusBadRequest, "invalid_request", "cursor")
	b.visit(t, "", "GET", "/v1/models/registry?colour=red", "").refused(t, http.StatusBadRequest, "invalid_request", "colour")
	b.visit(t, "", "GET", "/v1/models/registry?provider=nobody", "").refused(t, http.StatusBadRequest, "provider_unknown", "nobody")
	b.visit(t, "", "GET", "/v1/models/registry?status=retired", "").in(t, http.StatusOK, &page)
	if len(page.Models) != 1 {
		t.Fatalf("%d models, want 1: %v", len(page.Models), page.Models)
	}
	has(t, page.Models[0], fields{"model_id": "ancient", "successor": "m", "cutoff_date": "2026-01-01", "source": "catalog"})
	b.visit(t, "", "GET", "/v1/models/deprecation-notifications", "").in(t, http.StatusOK, &page)
	if days, _ := page.Models[0]["days_until_cutoff"].(float64); len(page.Models) != 1 || page.Models[0]["notice"] != "deprecated" || days >= 0 {
		t.Errorf("%v", page.Models)
	}
}

// An answer that the caller has is 304 on the JSON face, until it changes.
func TestETag(t *testing.T) {
	b := setup(t)
	for _, path := range []string{"/v1/models/catalog", "/v1/models/catalog/second", "/v1/models/registry", "/v1/models/deprecation-notifications"} {
		first := b.visit(t, "", "GET", path, "")
		tag := first.header.Get("Etag")
		if first.status != http.StatusOK || !strings.HasPrefix(tag, `"`) || first.header.Get("Cache-Control") != "no-cache" {
			t.Fatalf("%s: %d %v", path, first.status, first.header)
		}
		for _, match := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			if a := b.visit(t, "", "GET", path, "", "If-None-Match", match); a.status != http.StatusNotModified || a.body != "" || a.header.Get("Etag") != tag {
				t.Errorf("%s with %s: %d %s", path, match, a.status, a.body)
			}
		}
		if a := b.visit(t, "", "GET", path, "", "If-None-Match", `"other"`); a.status != http.StatusOK || a.body != first.body {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if path == "/v1/models/catalog" {
			continue
		}
		b.visit(t, "ops", "POST", "/v1/models/registry/spare/deprecate", `{"provider":"second","successor":"sandbox","reason":"`+path+`"}`)
		if a := b.visit(t, "", "GET", path, "", "If-None-Match", tag); strings.Contains(path, "catalog") == (a.status == http.StatusOK) && path != "/v1/models/catalog/second" {
			t.Errorf("%s after a change: %d", path, a.status)
		}
	}
	// Over gRPC it is whole.
	client := gatewayv1.NewModelServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("if-none-match", "*"))
	if page, err := client.ListModelCards(ctx, &gatewayv1.ListModelCardsRequest{}); err != nil || len(page.GetModels()) == 0 {
		t.Errorf("%v, %v", page, err)
	}
}

func TestDeprecateByAPI(t *testing.T) {
	b := setup(t)
	path := "/v1/models/registry/spare/deprecate"
	for body, want := range map[string]string{
		`{"successor":"sandbox"}`:                                         "400 reason",
		`{"reason":"r"}`:                                                  "400 successor",
		`{"successor":"sandbox","reason":"  "}`:                           "400 reason",
		`{"successor":"nonsense","reason":"r"}`:                           "400 successor: there is no model",
		`{"successor":"spare","reason":"r"}`:                              "400 successor: is the model itself",
		`{"successor":"first/ancient","reason":"r"}`:                      "400 successor: first/ancient is retired",
		`{"successor":"sandbox","reason":"r","cutoff_date":"2026-02-30"}`: "400 cutoff_date",
		`{"successor":"sandbox","reason":"r","cutoff_date":"soon"}`:       "400 cutoff_date",
		`{"successor":"sandbox","reason":"r","provider":"nobody"}`:        "400 provider",
	} {
		status, text, _ := strings.Cut(want, " ")
		if a := b.visit(t, "ops", "POST", path, body); fmt.Sprint(a.status) != status || !strings.Contains(a.body, text) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, want)
		}
	}
	b.visit(t, "ops", "POST", "/v1/models/registry/nonsense/deprecate", `{"successor":"sandbox","reason":"r"}`).refused(t, http.StatusNotFound, "model_not_found", "nonsense")
	b.visit(t, "ops", "POST", "/v1/models/registry/shared/deprecate", `{"successor":"sandbox","reason":"r"}`).refused(t, http.StatusBadRequest, "invalid_request", "fourth, third")

	soon := time.Now().UTC().AddDate(0, 0, 30).Format(time.DateOnly)
	var row fields
	b.visit(t, "ops", "POST", "/v1/models/registry/second%2Fspare/deprecate", `{"successor":"sandbox","reason":"dear","cutoff_date":"`+soon+`"}`).in(t, http.StatusOK, &row)
	has(t, row, fields{"status": "deprecated", "successor": "sandbox/sandbox", "cutoff_date": soon, "deprecated_by": "ops", "source": "operator"})
	if row["deprecated_at"] == nil {
		t.Error("deprecated_at is not set")
	}
	// Again: another reason, the cutoff stays.
	b.visit(t, "ops", "POST", path, `{"successor":"sandbox","reason":"slow"}`).in(t, http.StatusOK, &row)
	if row["reason"] != "slow" || row["cutoff_date"] != soon {
		t.Errorf("%v", row)
	}
	b.visit(t, "ops", "POST", path, `{"successor":"sandbox","reason":"slow"}`).in(t, http.StatusOK, &row) // Nothing new.
	if entries := b.auditOf(t, "model.deprecate"); len(entries) != 2 || entries[0].Subject != "second/spare" || entries[0].Reason != "slow" {
		t.Errorf("%+v", entries)
	}
	// A cutoff that has passed retires at once.
	b.visit(t, "ops", "POST", path, `{"successor":"sandbox","reason":"slow","cutoff_date":"2026-01-01"}`).in(t, http.StatusOK, &row)
	if row["status"] != "retired" {
		t.Errorf("%v", row)
	}
}

// A deprecated model is served with a warning, a retired one refused with its
// successor's name: on every face, whole, streamed and for vectors.
func TestRequestsGoByTheRegistry(t *testing.T) {
	b := setup(t)
	const chat = `"messages":[{"role":"user","content":"hi"}]`
	calls := []struct{ name, path, body string }{
		{"chat", "/v1/llm/chat", `{"model":"sandbox",` + chat + `}`},
		{"stream", "/v1/llm/chat", `{"model":"sandbox","stream":true,` + chat + `}`},
		{"openai", "/v1/chat/completions", `{"model":"sandbox",` + chat + `}`},
		{"openai stream", "/v1/chat/completions", `{"model":"sandbox","stream":true,` + chat + `}`},
		{"anthropic", "/v1/messages", `{"model":"sandbox","max_tokens":10,` + chat + `}`},
		{"embeddings", "/v1/embeddings", `{"model":"sandbox","input":"hi"}`},
		{"openai embeddings", "/v1/embeddings", `{"model":"sandbox","input":"hi","encoding_format":"float"}`},
		{"images", "/v1/images/generations", `{"model":"sandbox","prompt":"a cat"}`},
	}
	for _, c := range calls {
		if a := b.post(t, c.path, c.body); a.status != http.StatusOK || a.header.Get("X-Switchyard-Warning") != "" {
			t.Fatalf("%s: %d %s %q", c.name, a.status, a.body, a.header.Get("X-Switchyard-Warning"))
		}
	}
	deprecate := func(more string) {
		t.Helper()
		if a := b.visit(t, "ops", "POST", "/v1/models/registry/sandbox/deprecate", `{"successor":"second/spare","reason":"r"`+more+`}`); a.status != http.StatusOK {
			t.Fatal(a.body)
		}
	}
	deprecate("")
	for _, c := range calls {
		if a := b.post(t, c.path, c.body); a.status != http.StatusOK || a.header.Get("X-Switchyard-Warning") != "model sandbox/sandbox is deprecated; use second/spare" {
			t.Errorf("%s: %d %q", c.name, a.status, a.header.Get("X-Switchyard-Warning"))
		}
	}
	if a := b.post(t, "/v1/llm/chat", `{`+chat+`}`); a.header.Get("X-Switchyard-Warning") == "" {
		t.Error("no warning where the policy chose the model")
	}
	deprecate(`,"cutoff_date":"2026-02-01"`)
	for _, c := range calls {
		a := b.post(t, c.path, c.body)
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, "sandbox/sandbox was retired on 2026-02-01; use second/spare") {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	b.post(t, "/v1/llm/chat", `{"model":"ancient",`+chat+`}`).refused(t, http.StatusBadRequest, "model_retired", "first/ancient was retired on 2026-01-01; use m")
	client, md := b.client()
	if _, err := client.Chat(metadata.NewOutgoingContext(t.Context(), md), &gatewayv1.LlmRequest{Model: "sandbox", Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"hi"`)}}}); err == nil || !strings.Contains(err.Error(), "use second/spare") {
		t.Errorf("%v", err)
	}
	if list := b.visit(t, "svc", "GET", "/v1/models", ""); strings.Contains(list.body, `"sandbox"`) {
		t.Errorf("a retired model is listed: %s", list.body)
	}
}
