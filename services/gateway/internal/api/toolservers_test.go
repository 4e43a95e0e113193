package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/listing"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/testkit"
)

var operator = []string{"Authorization", "Bearer ops", "X-Organization-Id", ""}

func TestToolServer(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "files.key", ownKey)
	made := b.registers(t, "files", `,"credential":{"secret_ref":"file:files.key"},"price_per_call_cents":0.1234567891,"max_concurrency":3,"reason":"needed","features":["prompts","tools"]`)
	has(t, made, fields{
		"organization_id": "acme", "all_organizations": false, "server_id": "files", "prefix": "files", "url": "https://files.example/mcp",
		"command": "", "price_per_call_cents": 0.1234567891, "timeout_seconds": 60.0, "max_concurrency": 3.0, "max_per_minute": 0.0,
		"review_state": "unlisted", "listing_digest": "", "listed_at": nil, "last_error_class": nil, "version": 1.0, "registered_by": "ada", "moved_by": nil,
	})
	credential := made["credential"].(map[string]any)
	has(t, credential, fields{"custody": "secret_ref", "header": "Authorization", "scheme": "Bearer"})
	if fingerprint := credential["fingerprint"].(string); len(fingerprint) < 16 {
		t.Errorf("fingerprint %q", fingerprint)
	}
	read := b.see(t, serversPath+"/files").fields(t, 200)
	has(t, read, fields{"server_id": "files", "version": 1.0, "features": []any{"tools", "prompts"}, "price_per_call_cents": 0.1234567891})

	changed := b.say(t, http.MethodPatch, serversPath+"/files", `{"expected_version":1,"prefix":"f","max_concurrency":0,"timeout_seconds":5,"price_per_call_cents":2,"features":["resources","tasks","tools"]}`).fields(t, 200)
	has(t, changed, fields{"prefix": "f", "max_concurrency": 0.0, "timeout_seconds": 5.0, "price_per_call_cents": 2.0, "version": 2.0, "features": []any{"tools", "resources", "tasks"}, "moved_by": nil, "url": "https://files.example/mcp"})
	b.say(t, http.MethodPatch, serversPath+"/files", `{"expected_version":1,"prefix":"g"}`).refused(t, 409, "version_conflict", "expected_version")
	moved := b.say(t, http.MethodPatch, serversPath+"/files", `{"url":"https://files.example:8443/v2","remove_credential":true,"updated_by":"carol"}`).fields(t, 200)
	has(t, moved, fields{"url": "https://files.example:8443/v2", "credential": nil, "moved_by": "carol", "version": 3.0})

	b.say(t, http.MethodDelete, serversPath+"/files?reason=unused", "").gives(t, 204)
	b.see(t, serversPath+"/files").refused(t, 404, "not_found", "tool server")
	b.say(t, http.MethodDelete, serversPath+"/files", "").refused(t, 404, "not_found", "tool server")
	if again := b.registers(t, "files", ""); again["version"].(float64) != 4 || again["moved_by"] != nil {
		t.Errorf("registered again: %v", again)
	}
	var actions []string
	for _, entry := range b.trail(t, "action=tool_server.") {
		actions = append(actions, entry["action"].(string))
	}
	if got := strings.Join(actions, " "); got != "tool_server.register tool_server.remove tool_server.update tool_server.update tool_server.register" {
		t.Errorf("audit: %s", got)
	}
	testkit.NoLeak(t, ownKey, b.toolRows(t), b.log.String())
}

// A sealed credential is bound to organization and server, whose id may hold colons.
func TestToolServerSealed(t *testing.T) {
	b := setup(t)
	body := func(id, sealed, more string) string {
		return fmt.Sprintf(`{"server_id":%q,"prefix":"p-%d","url":"https://s.example/mcp","registered_by":"ada","credential":{"sealed":%s%s}}`, id, len(id), sealed, more)
	}
	made := b.post(t, serversPath, body("team:files", b.sealed(t, "acme", "mcp/team%3Afiles", ownKey), `,"header":"X-Api-Key"`)).fields(t, 201)
	has(t, made["credential"].(map[string]any), fields{"custody": "sealed", "header": "X-Api-Key", "scheme": ""})
	none := b.post(t, serversPath, body("abc", b.sealed(t, "acme", "mcp/abc", ownKey), `,"scheme":""`)).fields(t, 201)
	has(t, none["credential"].(map[string]any), fields{"header": "Authorization", "scheme": ""})
	b.post(t, serversPath, body("other", b.sealed(t, "acme", "mcp/files", ownKey), "")).refused(t, 400, "sealed_credential_invalid", "sealed")
	b.post(t, serversPath, body("other", b.sealed(t, "bolt", "mcp/other", ownKey), "")).refused(t, 400, "sealed_credential_invalid", "sealed")
	b.post(t, serversPath, body("other", b.sealed(t, "acme", "first", ownKey), "")).refused(t, 400, "sealed_credential_invalid", "sealed")
	// One for all organizations is sealed to none.
	b.post(t, serversPath, strings.Replace(body("all", b.sealed(t, "", "mcp/all", ownKey), ""), "{", `{"all_organizations":true,`, 1), operator...).fields(t, 201)
	identity := b.sealed(t, "acme", "mcp/cloud", `{"type":"service_account","project_id":"p","private_key_id":"k","private_key":"x","client_email":"e@p.iam.gserviceaccount.com","token_uri":"https://oauth2.googleapis.com/token"}`)
	b.post(t, serversPath, body("cloud", identity, "")).refused(t, 400, "invalid_request", "credential")
	testkit.NoLeak(t, ownKey, b.toolRows(t), b.log.String())
}

// A credential is never sent to another host than it was set for.
func TestToolServerMoves(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "files.key", ownKey)
	b.registers(t, "files", `,"credential":{"secret_ref":"file:files.key"}`)
	b.refreshes(t, "files", `read={"name":"read"}`)
	b.reviews(t, "files", "read", "approve").fields(t, 200)
	patch := func(body string) answer { return b.say(t, http.MethodPatch, serversPath+"/files", body) }
	for _, url := range []string{"https://evil.example/mcp", "https://files.example:444/mcp", "https://files.example.evil.example/mcp"} {
		patch(`{"url":"`+url+`"}`).refused(t, 400, "invalid_request", "credential")
	}
	// The same host is another server all the same.
	has(t, patch(`{"url":"https://FILES.example:443/v2"}`).fields(t, 200), fields{"review_state": "unlisted", "tools": 0.0, "moved_by": "edge"})
	if e := b.registry.Find("acme", "files"); len(e.Tools()) != 0 {
		t.Errorf("tools of the server before: %v", e.Tools())
	}
	has(t, patch(`{"url":"https://new.example/mcp","credential":{"secret_ref":"file:files.key","header":"X-Key"},"updated_by":"carol"}`).fields(t, 200), fields{"moved_by": "carol"})
	b.offered.offer("https://new.example/mcp", `read={"name":"read"}`)
	b.post(t, serversPath+"/files/refresh", `{}`).fields(t, 200)
	digest := b.definitions(t, "files")["read"]["digest"]
	for reviewer, status := range map[string]int{"carol": 403, "Ada": 403, "bob": 200} {
		b.post(t, serversPath+"/files/tools/read/review", fmt.Sprintf(`{"digest":%q,"decision":"approve","reviewed_by":%q}`, digest, reviewer)).gives(t, status)
	}
}

func TestToolServersOfAll(t *testing.T) {
	b := setup(t)
	shared := func(id, prefix string) map[string]any {
		return b.post(t, serversPath, fmt.Sprintf(`{"all_organizations":true,"server_id":%q,"prefix":%q,"url":"https://%s.example/mcp","registered_by":"ada"}`, id, prefix, id), operator...).fields(t, 201)
	}
	has(t, shared("search", "search"), fields{"organization_id": "", "all_organizations": true})
	shared("docs", "docs")
	b.registers(t, "files", "")
	b.post(t, serversPath, `{"server_id":"mine","prefix":"docs","url":"https://m.example","registered_by":"ada"}`).refused(t, 409, "conflict", "prefix")
	b.registers(t, "docs", `,"prefix":"docs","max_per_minute":7`) // In the place of that of all.
	list := func(path string, headers ...string) string {
		var ids []string
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			page := b.see(t, path+"limit=1&cursor="+cursor, headers...).fields(t, 200)
			for _, s := range page["servers"].([]any) {
				of := s.(map[string]any)
				ids = append(ids, of["server_id"].(string)+"/"+of["organization_id"].(string))
			}
			cursor = page["next_cursor"].(string)
		}
		return strings.Join(ids, " ")
	}
	for got, want := range map[string]string{
		list(serversPath + "?"): "docs/acme files/acme search/", list(serversPath+"?", "X-Organization-Id", "bolt"): "docs/ search/",
		list(serversPath+"?all_organizations=true&", operator...): "docs/ search/",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	has(t, b.see(t, serversPath+"/docs").fields(t, 200), fields{"max_per_minute": 7.0, "all_organizations": false})
	has(t, b.see(t, serversPath+"/search").fields(t, 200), fields{"all_organizations": true})
	// An organization reads those of all, and changes none.
	for _, change := range []struct{ method, path, body string }{
		{http.MethodPatch, "", `{"prefix":"x"}`},
		{http.MethodDelete, "", ""},
		{http.MethodPost, "/refresh", `{}`},
		{http.MethodPost, "/review", `{"listing_digest":"` + strings.Repeat("0", 64) + `","decision":"approve","reviewed_by":"bob"}`},
	} {
		b.say(t, change.method, serversPath+"/search"+change.path, change.body).refused(t, 404, "not_found", "tool server")
	}
	b.say(t, http.MethodDelete, serversPath+"/search?all_organizations=true", "", operator...).gives(t, 204)
	b.see(t, serversPath+"/search").refused(t, 404, "not_found", "")
}

func TestToolServerRefusals(t *testing.T) {
	b := setup(t)
	b.registers(t, "files", "")
	raw := "sk-proj-0123456789abcdefghijABCDEFGHIJ"
	random := "9fK2mQ7xW1pR8tY4uB6nC3vA5sD0gH2jL9"
	server := func(more string) string {
		return `{"server_id":"s","url":"https://s.example/mcp","registered_by":"ada"` + more + `}`
	}
	const bad, refusedKey = "invalid_request", "raw_key_refused"
	for name, test := range map[string]struct {
		body, reason, text string
		status             int
		header             []string
	}{
		"no target":                 {`{"server_id":"s"}`, bad, "url: exactly one of url and command", 400, nil},
		"two targets":               {server(`,"command":"git"`), bad, "exactly one", 400, operatorOfAcme},
		"an id twice":               {strings.Replace(server(""), `"s"`, `"files"`, 1), "conflict", "server_id", 409, nil},
		"a prefix twice":            {server(`,"prefix":"files"`), "conflict", "prefix", 409, nil},
		"an id":                     {`{"server_id":"a b","url":"https://s.example"}`, bad, "server_id", 400, nil},
		"a prefix with a separator": {server(`,"prefix":"a__b"`), bad, "prefix", 400, nil},
		"a prefix that ends so":     {server(`,"prefix":"a_"`), bad, "prefix", 400, nil},
		"a prefix that is missing":  {`{"server_id":"a__b","url":"https://s.example"}`, bad, "prefix: is required", 400, nil},
		"an id with a dot":          {`{"server_id":"a.b","url":"https://s.example"}`, bad, "prefix: is required", 400, nil},
		"plain http":                {`{"server_id":"s","url":"http://s.example/"}`, "target_not_allowed", "url: is not allowed (scheme)", 400, nil},
		"a private address":         {`{"server_id":"s","url":"https://10.0.0.1/"}`, "target_not_allowed", "(address)", 400, nil},
		"the metadata service":      {`{"server_id":"s","url":"https://169.254.169.254/latest"}`, "target_not_allowed", "(address)", 400, nil},
		"a name of the cluster":     {`{"server_id":"s","url":"https://gateway/"}`, "target_not_allowed", "(local_name)", 400, nil},
		"a user in the URL":         {`{"server_id":"s","url":"https://a:b@s.example/"}`, "target_not_allowed", "(userinfo)", 400, nil},
		"a command by a service":    {`{"server_id":"s","command":"git"}`, "forbidden", "command: needs the role operator", 403, nil},
		"an unknown command":        {`{"server_id":"s","command":"rm"}`, bad, "command: the operator's policy", 400, operatorOfAcme},
		"of all by a service":       {server(`,"all_organizations":true`), "forbidden", "all_organizations", 403, []string{"X-Organization-Id", ""}},
		"of all and of one":         {server(`,"all_organizations":true`), bad, "all_organizations", 400, operatorOfAcme},
		"of another":                {server(`,"organization_id":"bolt"`), "organization_mismatch", "organization_id", 403, nil},
		"by support":                {server(""), "forbidden", "", 403, []string{"Authorization", "Bearer sup"}},
		"a part of a pico":          {server(`,"price_per_call_cents":0.00000000001`), bad, "price_per_call_cents", 400, nil},
		"an unknown feature":        {server(`,"features":["sampling"]`), bad, "features", 400, nil},
		"tasks without tools":       {server(`,"features":["tasks"]`), bad, "features", 400, nil},
		"a feature twice":           {server(`,"features":["tools","tools"]`), bad, "features", 400, nil},
		"a negative price":          {server(`,"price_per_call_cents":-1`), bad, "price_per_call_cents", 400, nil},
		"a long time":               {server(`,"timeout_seconds":301`), bad, "timeout_seconds", 400, nil},
		"no time":                   {server(`,"timeout_seconds":0`), bad, "timeout_seconds", 400, nil},
		"a name with a filler":      {`{"server_id":"s","url":"https://s.example","registered_by":"a\u200bb"}`, bad, "registered_by: must not hold", 400, nil},
		"no credential":             {server(`,"credential":{}`), bad, "credential.secret_ref: exactly one", 400, nil},
		"a missing secret":          {server(`,"credential":{"secret_ref":"file:absent"}`), "secret_unresolved", "no such secret", 400, nil},
		"a header of the protocol":  {server(`,"credential":{"secret_ref":"file:a","header":"Mcp-Session-Id"}`), bad, "credential.header", 400, nil},
		"a header of the framing":   {server(`,"credential":{"secret_ref":"file:a","header":"Content-Length"}`), bad, "credential.header", 400, nil},
		"a header with a line":      {server(`,"credential":{"secret_ref":"file:a","header":"a\r\nb"}`), bad, "header", 400, nil},
		"a scheme with a space":     {server(`,"credential":{"secret_ref":"file:a","scheme":"a b"}`), bad, "scheme", 400, nil},
		"a raw key":                 {server(`,"credential":{"secret":"` + raw + `"}`), refusedKey, "secret", 400, nil},
		"a raw reference":           {server(`,"credential":{"secret_ref":"` + random + `"}`), refusedKey, "secret_ref", 400, nil},
		"a key in the URL":          {`{"server_id":"s","url":"https://s.example/?key=` + raw + `"}`, refusedKey, "url", 400, nil},
		"a reference for all": {
			server(`,"all_organizations":true,"credential":{"secret_ref":"file:a"}`), bad, "credential.secret_ref: must not be set for all", 400, operator,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.post(t, serversPath, test.body, test.header...).refused(t, test.status, test.reason, test.text)
		})
	}
	for body, text := range map[string]string{
		`{"url":"https://a.example","command":"git"}`: "exactly one", `{"url":"https://127.0.0.1/"}`: "(address)", `{"prefix":""}`: "prefix",
		`{"credential":{"secret_ref":"file:x"},"remove_credential":true}`: "remove_credential", `{"updated_by":"\u2800"}`: "updated_by",
	} {
		headers := operatorOfAcme
		if a := b.say(t, http.MethodPatch, serversPath+"/files", body, headers...); a.status != 400 || !strings.Contains(a.body, text) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	b.say(t, http.MethodPatch, serversPath+"/files", `{"command":"git"}`).refused(t, 403, "forbidden", "command")
	testkit.NoLeak(t, raw, b.log.String(), b.toolRows(t))
	testkit.NoLeak(t, random, b.log.String(), b.toolRows(t))
	if n := len(b.trail(t, "action=tool_server.")); n != 1 {
		t.Errorf("%d audit entries after refusals", n)
	}
}

var operatorOfAcme = []string{"Authorization", "Bearer ops"}

// An organization has a bounded number of servers.
func TestToolServersAreBounded(t *testing.T) {
	b := setup(t)
	for i := range 200 {
		b.registers(t, fmt.Sprintf("s%d", i), "")
	}
	b.post(t, serversPath, `{"server_id":"more","url":"https://s.example","registered_by":"ada"}`).refused(t, 409, "conflict", "200 servers")
	b.say(t, http.MethodDelete, serversPath+"/s7", "").gives(t, 204)
	b.registers(t, "more", "")
}

// A listing that fails is a state of the server, with nothing of the server's text unescaped.
func TestRefreshThatFails(t *testing.T) {
	b := setup(t)
	b.registers(t, "files", "")
	b.refreshes(t, "files", `read={"name":"read"}`)
	b.offered.fail("https://files.example/mcp", &listing.Error{Class: listing.ClassProtocol, Text: "no\u202e\n" + strings.Repeat("x", 300)})
	failed := b.post(t, serversPath+"/files/refresh", `{}`).fields(t, 200)
	has(t, failed, fields{"last_error_class": "protocol", "review_state": "pending", "tools": 1.0})
	if text := failed["last_error"].(string); !strings.HasPrefix(text, `no\u{202E}\u{A}xxx`) || len(text) > 230 {
		t.Errorf("error text %q", text)
	}
	has(t, b.refreshes(t, "files", `read={"name":"read"}`), fields{"last_error_class": nil, "last_error": nil, "last_error_at": nil, "protocol_version": "2026-07-28"})
}

// A server's status has the circuit of the organization that asks.
func TestToolServerCircuits(t *testing.T) {
	b := setup(t)
	b.post(t, serversPath, `{"all_organizations":true,"server_id":"shared","url":"https://s.example/mcp","registered_by":"ada"}`, operator...).fields(t, 201)
	has(t, b.registers(t, "files", ""), fields{"circuit": "closed", "circuit_cause": nil})
	for _, key := range []toolserver.Key{{Organization: "acme", ID: "files"}, {ID: "shared"}} {
		for range 5 {
			done, refused := b.circuits.Acquire(t.Context(), toolcall.CircuitOf("acme", key))
			if refused != nil {
				t.Fatal(refused)
			}
			done(t.Context(), health.Verdict{Outcome: health.Bad, Cause: "the server did not answer in time"})
		}
	}
	opened := fields{"circuit": "open", "circuit_cause": "calls fail: the server did not answer in time"}
	has(t, b.see(t, serversPath+"/files").fields(t, 200), opened)
	has(t, b.see(t, serversPath+"/shared").fields(t, 200), opened)
	has(t, b.see(t, serversPath+"/shared", "X-Organization-Id", "bolt").fields(t, 200), fields{"circuit": "closed", "circuit_cause": nil})
	has(t, b.see(t, serversPath+"/shared?all_organizations=true", operator...).fields(t, 200), fields{"circuit": "", "circuit_cause": nil})
}
