package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// The same on the other face.
func TestByokGRPC(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "first.key", ownKey)
	client := gatewayv1.NewByokServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme", "x-request-id", "req-test"))
	put, err := client.PutByokConfig(ctx, &gatewayv1.PutByokConfigRequest{Provider: "first", SecretRef: "file:first.key"})
	if err != nil || put.GetVersion() != 1 || put.GetMaskedHint() != "****0001" {
		t.Fatalf("%v, %v", put, err)
	}
	raw := "sk-proj-0123456789abcdefghijABCDEFGHIJ"
	for name, m := range map[string]*gatewayv1.PutByokConfigRequest{
		"as the reference": {Provider: "first", SecretRef: raw}, "as the owner": {Provider: "first", OwnerPrincipal: raw}, "as the provider": {Provider: raw},
	} {
		_, err := client.PutByokConfig(ctx, m)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "raw key") || strings.Contains(err.Error(), raw) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.GetByokConfig(ctx, &gatewayv1.GetByokConfigRequest{Provider: "second"}); status.Code(err) != codes.NotFound {
		t.Errorf("absent: %v", err)
	}
	if _, err := client.ListStaleByokConfigs(ctx, &gatewayv1.ListStaleByokConfigsRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("stale for a service: %v", err)
	}
	if purged, err := client.PurgeByok(ctx, &gatewayv1.PurgeByokRequest{}); err != nil || purged.GetErased() != 1 {
		t.Errorf("%v, %v", purged, err)
	}
	if strings.Contains(b.log.String(), raw) {
		t.Error("a raw key is in the log")
	}
}

// Concurrent rotations and purges leave one consistent state.
func TestByokConcurrently(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "first.key", ownKey)
	b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`).gives(t, 201)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if a := b.say(t, http.MethodPost, configPath+"/first/rotate", `{"secret_ref":"file:first.key"}`); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	group.Wait()
	if got := b.say(t, http.MethodGet, configPath+"/first", "").gives(t, 200); got["version"] != 17.0 {
		t.Errorf("version %v after 16 rotations", got["version"])
	}
	var erased, created float64
	var mu sync.Mutex
	for i := range 20 {
		group.Go(func() {
			if i%2 == 0 {
				a := b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`)
				mu.Lock()
				defer mu.Unlock()
				if a.status == 201 {
					created++
				}
				return
			}
			a := b.say(t, http.MethodPost, "/v1/byok/purge", `{}`).gives(t, 200)
			mu.Lock()
			defer mu.Unlock()
			erased += a["erased"].(float64)
		})
	}
	group.Wait()
	last := b.say(t, http.MethodPost, "/v1/byok/purge", `{}`).gives(t, 200)
	if erased += last["erased"].(float64); erased != created+1 || last["configs_remaining"] != 0.0 {
		t.Errorf("%v erased of %v created and the one before", erased, created)
	}
}
