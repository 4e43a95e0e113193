package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/postgres"
)

const radiusPath = "/v1/security/blast-radius?provider="

func TestBlastRadius(t *testing.T) {
	b := setup(t)
	for i, organization := range []string{"acme", "acme", "bolt"} {
		if a := b.chat(t, `{"model":"first/ok","messages":[{"role":"user","content":"hi"}]}`, "X-Organization-Id", organization, "X-Run-Id", fmt.Sprint("r", i%2)); a.status != 200 {
			t.Fatal(a.body)
		}
	}
	b.chat(t, `{"model":"sandbox","messages":[{"role":"user","content":"hi"}]}`)
	want := func(when string) {
		t.Helper()
		r := b.get(t, radiusPath+"FIRST", "ops").fields(t, 200)
		organizations, runs, services := r["organizations"].([]any), r["runs"].([]any), r["services"].([]any)
		if r["provider"] != "first" || r["calls"] != 3.0 || len(organizations) != 2 || len(runs) != 3 || len(services) != 1 ||
			r["truncated"] != false || r["since"] != nil || r["until"] == nil || r["first_used_at"] == nil || r["cost_cents"].(float64) <= 0 {
			t.Errorf("%s: %v", when, r)
		}
		acme, edge := organizations[0].(map[string]any), services[0].(map[string]any)
		if acme["organization_id"] != "acme" || acme["calls"] != 2.0 || acme["credential"] != "fleet" || edge["service"] != "edge" || edge["calls"] != 3.0 {
			t.Errorf("%s: %v", when, r)
		}
	}
	want("before it is added up")
	b.settled(t, 4) // Other transactions delay the feed and the sums.
	if n, err := postgres.NewExposure(b.pool).Aggregate(t.Context(), 100); n != 4 || err != nil {
		t.Fatalf("folded %d, %v", n, err)
	}
	want("after it")
	if r := b.get(t, radiusPath+"first&limit=1", "ops").fields(t, 200); r["truncated"] != true || len(r["runs"].([]any)) != 1 || r["run_count"] != 3.0 || r["organization_count"] != 2.0 {
		t.Errorf("cut: %v", r)
	}
	var fingerprint string
	if err := b.pool.QueryRow(t.Context(), "SELECT min(credential_fingerprint) FROM ledger_entry WHERE provider = 'first'").Scan(&fingerprint); err != nil {
		t.Fatal(err)
	}
	client := gatewayv1.NewSecurityServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer ops"))
	got, err := client.GetBlastRadius(ctx, &gatewayv1.GetBlastRadiusRequest{Provider: "first", Fingerprint: fingerprint, Since: timestamppb.New(time.Now().Add(-time.Hour))})
	if err != nil || got.GetCalls() != 3 || got.GetFingerprint().GetValue() != fingerprint {
		t.Errorf("by the credential: %v, %v", got, err)
	}
	got, err = client.GetBlastRadius(ctx, &gatewayv1.GetBlastRadiusRequest{Provider: "first", Until: timestamppb.New(time.Now().Add(-time.Hour))})
	if err != nil || got.GetCalls() != 0 || got.GetFirstUsedAt() != nil || got.GetTruncated() {
		t.Errorf("before: %v, %v", got, err)
	}
	if r := b.get(t, radiusPath+"first&fingerprint=other", "ops").fields(t, 200); r["calls"] != 0.0 {
		t.Errorf("of another credential: %v", r)
	}
}

func TestBlastRadiusRefuses(t *testing.T) {
	b := setup(t)
	b.get(t, radiusPath+"first", "svc").refused(t, 403, "forbidden", "")
	b.get(t, radiusPath+"first", "sup").refused(t, 403, "forbidden", "")
	b.get(t, radiusPath, "ops").refused(t, 400, "invalid_request", "provider")
	b.get(t, radiusPath+"first&limit=1001", "ops").refused(t, 400, "invalid_request", "limit")
	b.get(t, radiusPath+"first&since=2026-01-02T00:00:00Z&until=2026-01-02T00:00:00Z", "ops").refused(t, 400, "invalid_request", "until: must be after since")
	b.get(t, radiusPath+"first&since=yesterday", "ops").refused(t, 400, "invalid_request", "since")
}

func TestListAudit(t *testing.T) {
	b := setup(t)
	for range 3 {
		b.asks(t, "")
	}
	b.assign(t, "files", "COMMUNITY", "ada")
	now := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	for query, want := range map[string]int{
		"": 4, "organization_id=acme": 4, "organization_id=bolt": 0, "actor=edge": 4, "actor=x": 0, "action=approval.": 3,
		"action=approval.create": 3, "action=approval": 0, "subject=files": 1, "since=" + now: 0, "until=" + now: 4,
	} {
		if got := b.trail(t, query); len(got) != want {
			t.Errorf("%s: %d entries, want %d", query, len(got), want)
		}
	}
	var ids []string
	cursor := ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		page := b.get(t, "/v1/admin/audit?limit=3&organization_id=acme&cursor="+url.QueryEscape(cursor), "ops").fields(t, 200)
		for _, e := range page["entries"].([]any) {
			ids = append(ids, e.(map[string]any)["audit_id"].(string))
		}
		cursor = page["next_cursor"].(string)
	}
	if strings.Join(ids, " ") != "4 3 2 1" {
		t.Errorf("pages gave %v", ids)
	}
	client := gatewayv1.NewSecurityServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer ops"))
	reply, err := client.ListAudit(ctx, &gatewayv1.ListAuditRequest{Subject: "files"})
	if err != nil || len(reply.GetEntries()) != 1 || !strings.Contains(string(reply.GetEntries()[0].GetDetails()), `"level": "COMMUNITY"`) {
		t.Errorf("gRPC: %v, %v", reply, err)
	}
	b.get(t, "/v1/admin/audit", "svc").refused(t, 403, "forbidden", "")
	b.get(t, "/v1/admin/audit?organization_id=acme", "ops", "X-Organization-Id", "bolt").refused(t, 403, "organization_mismatch", "")
	b.get(t, "/v1/admin/audit?cursor=x", "ops").refused(t, 400, "invalid_request", "cursor")
}
