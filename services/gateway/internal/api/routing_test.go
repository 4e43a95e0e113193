package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/platform/apierr"
)

// policies reloads with a set result or error.
type policies struct {
	calls atomic.Int32
	fails error
	// policy is the one in force.
	policy *policy.Policy
}

func (p *policies) Reload(context.Context) (policy.Reloaded, error) {
	p.calls.Add(1)
	if p.fails != nil {
		return policy.Reloaded{}, p.fails
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return policy.Reloaded{
		Now:    policy.Version{Hash: "bbb", LoadedAt: at, Providers: []string{"a", "b"}, Models: 5},
		Before: policy.Version{Hash: "aaa"}, Changed: true, Changes: []string{"provider b added"},
	}, nil
}

func (b *bench) reload(t *testing.T, token, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.http.URL+"/v1/admin/reload-policy", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Request-Id", "req-test")
	resp, err := b.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, string(text), resp.Header}
}

func TestReloadPolicy(t *testing.T) {
	b := setup(t)
	for _, body := range []string{"", "{}"} {
		got := b.reload(t, "ops", body)
		want := `{"changed":true,"policy_version":"bbb","previous_policy_version":"aaa","loaded_at":"2026-11-21T12:00:00Z","warnings":[],"providers":["a","b"],"models":5,"changes":["provider b added"]}`
		if got.status != http.StatusOK || got.body != want {
			t.Errorf("%d %s, want %s", got.status, got.body, want)
		}
	}
	client := gatewayv1.NewRoutingServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer ops"))
	if got, err := client.ReloadPolicy(ctx, &gatewayv1.ReloadPolicyRequest{}); err != nil || got.GetModels() != 5 || !got.GetChanged() {
		t.Errorf("%v, %v", got, err)
	}
	calls := b.policies.calls.Load()
	b.reload(t, "svc", "{}").refused(t, http.StatusForbidden, "forbidden", "operator")
	b.reload(t, "sup", "{}").refused(t, http.StatusForbidden, "forbidden", "operator")
	b.reload(t, "nobody", "{}").refused(t, http.StatusUnauthorized, "unauthenticated", "")
	b.reload(t, "ops", `{"file":"x"}`).refused(t, http.StatusBadRequest, "invalid_request", "file")
	if got := b.policies.calls.Load(); got != calls {
		t.Errorf("%d reloads by those who may not", got-calls)
	}

	b.policies.fails = apierr.New(apierr.KindUnprocessable, policy.ReasonPolicyInvalid, `nothing changed: policy.yaml: line 3: field colour: there is no such field`)
	if document := b.reload(t, "ops", "{}").refused(t, http.StatusUnprocessableEntity, "policy_invalid", "policy.yaml: line 3"); document.ErrorClass != apierr.ClassPolicy || document.Retryable {
		t.Errorf("%+v, want class policy", document)
	}
	if _, err := client.ReloadPolicy(ctx, &gatewayv1.ReloadPolicyRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("gRPC: %v", err)
	}
}
