package control_test

import (
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/caller"
)

// The pages of tools read servers, definitions and calls, and review under the operator's name, in an organization's place
// and in none's.
func TestConsoleTools(t *testing.T) {
	x, _ := newConsole(t)
	own := append(x.signIn(t), caller.HeaderUser, "ann")
	const acme, everyone = "/console/api/organizations/acme", "/console/api"
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               relayed
	}{
		{"GET", acme + "/tools/servers?limit=5&cursor=c&secret=x", "", 200, relayed{organization: "acme", target: "http://gateway/v1/mcp/servers?cursor=c&limit=5", user: "ann"}},
		{"GET", everyone + "/tools/servers?all_organizations=true", "", 200, relayed{target: "http://gateway/v1/mcp/servers?all_organizations=true", user: "ann"}},
		{"GET", acme + "/tools/servers/f%2Fs", "", 200, relayed{organization: "acme", target: "http://gateway/v1/mcp/servers/f%2Fs", user: "ann"}},
		{"GET", acme + "/tools/servers/files/tools?status=pending", "", 200, relayed{organization: "acme", target: "http://gateway/v1/mcp/servers/files/tools?status=pending", user: "ann"}},
		{"POST", acme + "/tools/servers/files/refresh", "{}", 200, relayed{organization: "acme", target: "http://gateway/v1/mcp/servers/files/refresh", user: "ann", body: "{}"}},
		{"POST", acme + "/tools/servers/files/tools/pay/review", `{"digest":"d","decision":"approve"}`, 200, relayed{
			organization: "acme", target: "http://gateway/v1/mcp/servers/files/tools/pay/review", body: `{"decision":"approve","digest":"d","reviewed_by":"olga"}`,
		}},
		{"POST", everyone + "/tools/servers/files/review", `{"listing_digest":"d","decision":"reject","reason":"no","all_organizations":true}`, 200, relayed{
			target: "http://gateway/v1/mcp/servers/files/review", body: `{"all_organizations":true,"decision":"reject","listing_digest":"d","reason":"no","reviewed_by":"olga"}`,
		}},
		{"GET", acme + "/tools/calls?provider=mcp%2Ffiles&since=s&organization_id=other", "", 200, relayed{organization: "acme", target: "http://gateway/v1/usage?provider=mcp%2Ffiles&since=s", user: "ann"}},
		{"POST", acme + "/tools/servers/files/review", `{"decision":"approve","reviewed_by":"bob"}`, 400, relayed{}},
		{"POST", everyone + "/tools/servers/files/review", `{"decision":"approve","organization_id":"other"}`, 400, relayed{}},
		{"POST", acme + "/tools/servers", `{}`, 405, relayed{}},
	} {
		x.calls = nil
		if answer := x.do(t, tt.method, tt.path, tt.body, own...); answer.Status != tt.status {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.path, answer.Status, tt.status)
		}
		if tt.status != 200 {
			if len(x.calls) != 0 {
				t.Errorf("%s %s: called as %+v", tt.method, tt.path, x.calls)
			}
			continue
		}
		if tt.want.key = "console"; len(x.calls) != 1 || x.calls[0] != tt.want {
			t.Errorf("%s %s: called as %+v, want %+v", tt.method, tt.path, x.calls, tt.want)
		}
	}
	if answer := x.do(t, "GET", acme+"/tools/servers", ""); answer.Status != 401 {
		t.Errorf("without a session: %d, want 401", answer.Status)
	}
	entries, err := x.keys.Audit(t.Context(), apikey.AuditQuery{Organization: "acme", Limit: 10})
	if err != nil || len(entries) == 0 {
		t.Fatalf("audit %v, %v", entries, err)
	}
	for _, e := range entries {
		if e.Actor.Name == "olga" && e.Details["server_id"] == "files" && e.Details["tool"] == "pay" && strings.HasSuffix(e.Details["operation"].(string), "/review") {
			return
		}
	}
	t.Errorf("the audit lacks the review by olga: %v", entries)
}
