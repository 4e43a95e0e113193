//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"switchyard.dev/deploy/dev/stack"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// custodies are the ways in which a key is held and sent, by name: the header of
// each dialect and of Azure, and a file that is replaced.
var custodies = []struct {
	name   string
	vendor vendor
}{
	{"bearer", vendor{dialect: "openai"}},
	{"anthropic", vendor{dialect: "anthropic"}},
	{"gemini", vendor{dialect: "gemini"}},
	{"azure", vendor{dialect: "openai", more: object{"api_version": "2024-10-21"}}},
	{"rotated", vendor{dialect: "openai"}},
}

// leaks are what a vendor may do with the key that it was sent.
var leaks = []struct {
	name   string
	action func(key string) object
}{
	{"a 401 that repeats it", func(key string) object {
		return object{"status": 401, "body": fmt.Sprintf(`{"error":{"message":"Incorrect API key provided: %s.","code":"invalid_api_key","status":"UNAUTHENTICATED"}}`, key)}
	}},
	{"a page that shows it", func(key string) object {
		return object{"status": 500, "headers": object{"Content-Type": "text/html"}, "body": "<html><pre>Authorization: Bearer " + key + "</pre></html>"}
	}},
	{"a redirect to it", func(key string) object { return object{"redirect": "http://127.0.0.1:1/?key=" + key} }},
	{"an answer that is no JSON", func(key string) object {
		return object{"status": 200, "headers": object{"Content-Type": "application/json"}, "body": "api key " + key}
	}},
	{"an error behind a 200", func(key string) object {
		return object{"status": 200, "headers": object{"Content-Type": "text/event-stream"}, "body": fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"bad key %s\",\"type\":\"api_error\",\"code\":500}}\n\n", key)}
	}},
	{"headers that name it", func(key string) object {
		return object{"status": 429, "headers": object{"Retry-After": key, "X-Ratelimit-Reset-Requests": key, "X-Debug": key}}
	}},
}

// leaky are a vendor for each: one failure keeps the gateway away from a key for a
// while, and must not hide the next.
var leaky = func() (all [][]vendor) {
	for _, c := range custodies {
		var row []vendor
		for i := range leaks {
			v := c.vendor
			v.name = fmt.Sprintf("leaky-%s-%d", c.name, i)
			v.model = v.name
			row = append(row, addVendor(v))
		}
		all = append(all, row)
	}
	return all
}()

// A key that a vendor shouts back is nowhere to be found afterwards: answers of all
// faces and all logs are searched at the end of the run (see TestMain), metrics and
// stores here.
func TestKeysStayInCustody(t *testing.T) {
	t.Parallel()
	h := use(t)
	service := h.service(stack.Gateway, unique("org"))
	for i, c := range custodies {
		for j, leak := range leaks {
			t.Run(c.name+", "+leak.name, func(t *testing.T) {
				v := leaky[i][j]
				key, path := v.key(), v.callPath()
				if c.name == "rotated" {
					service.post(t, chatPath, ask(v.model, "before")).want(t, http.StatusOK)
					key = h.rotate(t, v)
					waitFor(t, patience, "the new key", func() error {
						service.post(t, chatPath, ask(v.model, "after")).want(t, http.StatusOK)
						return h.sentKey(t, v, path, key)
					})
				}
				if v.more["api_version"] != nil {
					path = "/openai/deployments/" + v.model + "/*"
				}
				h.script(t, stack.FakeProvider, rule{Match: object{"path": path, "body": "leak of " + v.name}, Action: leak.action(key)})
				for _, face := range faces {
					for _, stream := range []bool{false, true} {
						body := face.body(v.model, "leak of "+v.name).with(object{"stream": stream})
						if a := service.post(t, face.path, body); a.status < 400 {
							t.Errorf("answered %d: %s", a.status, shorten(a.body))
						}
					}
				}
				_, err := gatewayv1.NewInferenceServiceClient(h.grpc(t, stack.Gateway)).Chat(h.as(t, "org_leak"), llm(t, v.model, "leak of "+v.name))
				if err == nil || len(canaries.in([]byte(err.Error()))) > 0 {
					t.Errorf("over gRPC: %v", err)
				}
				if err := h.sentKey(t, v, path, key); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for where, text := range map[string]string{
		"the metrics": string(h.anonymous(stack.Gateway).get(t, "/metrics").want(t, http.StatusOK).body),
		"Postgres":    h.rowsOf(t), "Redis": h.keysOf(t), "the spool": strings.Join(h.spooled(t), ""),
	} {
		if text == "" && where != "the spool" { // Which is empty when Postgres has all.
			t.Errorf("%s: there is nothing to look through", where)
		}
		for _, what := range vendorKeysIn(text) {
			t.Errorf("%s is in %s", what, where)
		}
	}
}

// rotate puts another key in the place of a vendor's.
func (h *house) rotate(t *testing.T, v vendor) (key string) {
	t.Helper()
	key = "sk-canary-rotated-" + v.name + runSecret
	canaries.add("a key that took the place of "+v.name+"'s", key)
	if err := os.WriteFile(filepath.Join(h.root, "keys", v.name), []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return key
}

// vendorKeysIn names the provider keys that a text holds. Other secrets have their
// place in some store: the hash of a product key is one, its organization another.
func vendorKeysIn(text string) (found []string) {
	for _, what := range canaries.in([]byte(text)) {
		if strings.HasPrefix(what, "the key of provider") || strings.HasPrefix(what, "a key that took") {
			found = append(found, what)
		}
	}
	return found
}

// sentKey wants the key to have reached the vendor: or else the test proves nothing.
func (h *house) sentKey(t *testing.T, v vendor, path, key string) error {
	t.Helper()
	var report struct {
		Last []vendorCall `json:"last"`
	}
	h.fake(stack.FakeProvider).get(t, "/_calls").into(t, http.StatusOK, &report)
	header, want := v.credential(key)
	for _, call := range report.Last {
		if strings.HasPrefix(call.Path, strings.TrimSuffix(path, "*")) && call.Headers.Get(header) == want {
			return nil
		}
	}
	return fmt.Errorf("%s never got its key as %s", v.name, header)
}

// rowsOf is every row of the gateway's schema, as text.
func (h *house) rowsOf(t *testing.T) string {
	t.Helper()
	db, err := pgx.Connect(t.Context(), h.DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(t.Context()))
	tables, err := db.Query(t.Context(), `SELECT quote_ident(table_schema) || '.' || quote_ident(table_name)
		FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		rows, err := db.Query(t.Context(), "SELECT r::text FROM "+name+" r")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(strings.Join(lines, "\n"))
	}
	return all.String()
}

// keysOf is every key of Redis with its value.
func (h *house) keysOf(t *testing.T) string {
	t.Helper()
	options, err := redis.ParseURL(h.RedisURL())
	if err != nil {
		t.Fatal(err)
	}
	db := redis.NewClient(options)
	defer db.Close()
	var all strings.Builder
	keys := db.Scan(t.Context(), 0, "*", 1000).Iterator()
	for keys.Next(t.Context()) {
		name := keys.Val()
		var value any
		switch db.Type(t.Context(), name).Val() {
		case "string":
			value = db.Get(t.Context(), name).Val()
		case "hash":
			value = db.HGetAll(t.Context(), name).Val()
		case "list":
			value = db.LRange(t.Context(), name, 0, -1).Val()
		case "set":
			value = db.SMembers(t.Context(), name).Val()
		case "zset":
			value = db.ZRange(t.Context(), name, 0, -1).Val()
		case "stream":
			value = db.XRange(t.Context(), name, "-", "+").Val()
		}
		fmt.Fprintln(&all, name, value)
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return all.String()
}
