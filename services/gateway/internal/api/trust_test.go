package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

const trustPath = "/v1/mcp/trust"

func (b *bench) assign(tb testing.TB, server, level, by string) map[string]any {
	tb.Helper()
	return b.post(tb, trustPath, fmt.Sprintf(`{"server_id":%q,"level":%q,"assigned_by":%q,"reason":"needed"}`, server, level, by)).fields(tb, http.StatusCreated)
}

func TestTrust(t *testing.T) {
	b := setup(t)
	review := trustPath + "/acme/files/review"
	if r := b.assign(t, "files", "VERIFIED", "ada"); r["effective_level"] != "UNTRUSTED" || r["review_status"] != "pending" || r["version"] != 1.0 || r["reviewed_by"] != nil {
		t.Errorf("assigned: %v", r)
	}
	b.post(t, review, `{"reviewed_by":"ada"}`).refused(t, 403, "reviewer_not_independent", "reviewed_by")
	b.post(t, review, `{"reviewed_by":"bob","expected_version":2}`).refused(t, 409, "version_conflict", "expected_version")
	if r := b.post(t, review, `{"reviewed_by":"bob","reason":"read it"}`).fields(t, 200); r["effective_level"] != "VERIFIED" || r["review_status"] != "approved" || r["review_reason"] != "read it" {
		t.Errorf("reviewed: %v", r)
	}
	b.post(t, review, `{"reviewed_by":"bob"}`).refused(t, 409, "conflict", "pending")
	if r := b.assign(t, "files", "FIRST_PARTY", "bob"); r["effective_level"] != "VERIFIED" {
		t.Errorf("assigned more: %v", r)
	}
	if r := b.post(t, review, `{"reviewed_by":"ada","decision":"reject"}`).fields(t, 200); r["effective_level"] != "VERIFIED" || r["review_status"] != "rejected" {
		t.Errorf("rejected: %v", r)
	}
	if r := b.assign(t, "files", "COMMUNITY", "ada"); r["effective_level"] != "COMMUNITY" || r["review_status"] != "not_required" {
		t.Errorf("assigned less: %v", r)
	}
	b.assign(t, "another", "UNTRUSTED", "ada")
	var history []string
	cursor := ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		page := b.get(t, trustPath+"/acme/files/history?limit=2&cursor="+cursor, "svc").fields(t, 200)
		for _, r := range page["records"].([]any) {
			record := r.(map[string]any)
			history = append(history, fmt.Sprint(record["version"], record["level"], record["review_status"]))
		}
		cursor = page["next_cursor"].(string)
	}
	if got := strings.Join(history, " "); got != "3COMMUNITYnot_required 2FIRST_PARTYrejected 1VERIFIEDapproved" {
		t.Errorf("history %s", got)
	}
	page := b.get(t, trustPath+"/acme?limit=1", "svc").fields(t, 200)
	rest := b.get(t, trustPath+"/acme?limit=1&cursor="+page["next_cursor"].(string), "svc").fields(t, 200)
	first, second := page["records"].([]any)[0].(map[string]any), rest["records"].([]any)[0].(map[string]any)
	if first["server_id"] != "another" || second["server_id"] != "files" || second["effective_level"] != "COMMUNITY" || rest["next_cursor"] != "" {
		t.Errorf("listed %v, then %v", page, rest)
	}
	if got := b.trail(t, "action=trust.&subject=files"); len(got) != 5 || got[1]["action"] != "trust.reject" || got[3]["action"] != "trust.approve" || got[4]["reason"] != "needed" {
		t.Errorf("audit %v", got)
	}
}

func TestTrustRefusals(t *testing.T) {
	b := setup(t)
	b.assign(t, "files", "VERIFIED", "ada")
	for name, test := range map[string]struct {
		path, body string
		header     []string
		status     int
		reason     string
		text       string
	}{
		"a level":              {trustPath, `{"server_id":"s","level":"GOOD","assigned_by":"ada"}`, nil, 400, "invalid_request", "level"},
		"a server":             {trustPath, `{"server_id":"a b","level":"COMMUNITY","assigned_by":"ada"}`, nil, 400, "invalid_request", "server_id"},
		"a name with a filler": {trustPath, `{"server_id":"s","level":"COMMUNITY","assigned_by":"a\u115f"}`, nil, 400, "invalid_request", "assigned_by: must not hold control"},
		"for the assigner":     {trustPath + "/acme/files/review", `{"reviewed_by":"bob"}`, []string{"X-User-Id", "ada"}, 403, "reviewer_not_independent", ""},
		"nobody":               {trustPath, `{"server_id":"s","level":"COMMUNITY","assigned_by":" "}`, nil, 400, "invalid_request", "assigned_by: must not be blank"},
		"another organization": {trustPath, `{"organization_id":"bolt","server_id":"s","level":"COMMUNITY","assigned_by":"ada"}`, nil, 403, "organization_mismatch", ""},
		"a role":               {trustPath, `{"server_id":"s","level":"COMMUNITY","assigned_by":"ada"}`, []string{"Authorization", "Bearer sup"}, 403, "forbidden", ""},
		"review of nothing":    {trustPath + "/acme/none/review", `{"reviewed_by":"bob"}`, nil, 404, "not_found", "trust record"},
		"review elsewhere":     {trustPath + "/bolt/files/review", `{"reviewed_by":"bob"}`, nil, 403, "organization_mismatch", ""},
		"review of another's":  {trustPath + "/bolt/files/review", `{"reviewed_by":"bob"}`, []string{"X-Organization-Id", ""}, 404, "not_found", ""},
		"a decision":           {trustPath + "/acme/files/review", `{"reviewed_by":"bob","decision":"maybe"}`, nil, 400, "invalid_request", "decision"},
		"nobody reviews":       {trustPath + "/acme/files/review", `{}`, nil, 400, "invalid_request", "reviewed_by"},
		"in capitals":          {trustPath + "/acme/files/review", `{"reviewed_by":"ADA"}`, nil, 403, "reviewer_not_independent", ""},
		"review by a support":  {trustPath + "/acme/files/review", `{"reviewed_by":"bob"}`, []string{"Authorization", "Bearer sup"}, 403, "forbidden", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b.post(t, test.path, test.body, test.header...).refused(t, test.status, test.reason, test.text)
		})
	}
	b.get(t, trustPath+"/acme", "svc", "X-Organization-Id", "bolt").refused(t, 403, "organization_mismatch", "")
	b.get(t, trustPath+"/acme/files/history", "sup").refused(t, 403, "forbidden", "")
	b.get(t, trustPath+"/acme?cursor=x", "svc").refused(t, 400, "invalid_request", "cursor")
	if n := len(b.trail(t, "action=trust.")); n != 1 {
		t.Errorf("%d audit entries after refusals", n)
	}
}

// Of concurrent reviews on both faces, one takes effect.
func TestConcurrentReviews(t *testing.T) {
	b := setup(t)
	b.assign(t, "files", "VERIFIED", "ada")
	client := gatewayv1.NewTrustServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer svc"))
	var settled atomic.Int64
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			_, err := client.ReviewTrust(ctx, &gatewayv1.ReviewTrustRequest{OrgId: "acme", ServerId: "files", ReviewedBy: fmt.Sprint("r", i), Decision: []string{"approve", "reject"}[i%2]})
			if err == nil {
				settled.Add(1)
			} else if status.Code(err) != codes.Aborted {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if settled.Load() != 1 {
		t.Errorf("%d reviews held", settled.Load())
	}
}
