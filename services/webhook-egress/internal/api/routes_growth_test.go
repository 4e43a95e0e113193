package api_test

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/metadata"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
)

// bodies are requests that each route takes.
var bodies = map[string]string{
	"POST /v1/deliveries":             enqueueBody,
	"POST /v1/deliveries/batch":       `{"deliveries":[` + enqueueBody + `]}`,
	"POST /v1/deliveries/{id}/resend": `{}`,
	"POST /v1/deliveries/{id}/cancel": `{}`,
	"POST /v1/endpoints":              `{"url":"https://example.com/x","event_types":["order.*"],"signing_mode":"endpoint_body","signing_secret":"the-first-one-of-24-bytes-or-more"}`,
	"PATCH /v1/endpoints/{id}": `{"active":false,"custom_headers":{"X-A":"b"},"signatures":["spec","v1"],
		"auth":{"oauth2":{"token_url":"https://example.com/token","client_id":"c","client_secret":"s","scopes":["a"]}}}`,
	"POST /v1/endpoints/{id}/test":          `{}`,
	"POST /v1/endpoints/{id}/rotate-secret": `{}`,
	"POST /v1/events":                       `{"event_type":"order.paid","payload":{"order":7}}`,
	"PUT /v1/event-types/{type}":            `{"description":"x","schema":{"type":"object","properties":{"a":{"type":"string"}}},"validation":"warn","examples":[{"a":"b"}],"deprecated":true}`,
	"POST /v1/replays":                      `{"filter":{"status":["failed"],"created_after":"2026-01-01T00:00:00Z"},"dry_run":true}`,
	"POST /v1/replays/{id}/cancel":          `{}`,
	"POST /v1/house/events":                 `{"event_id":"1","type":"switchyard.budget.threshold","source":"/switchyard/gateway","occurred_at":"2026-01-02T03:04:05Z","data":{"percent":80}}`,
}

func TestRoutesGrowsLinearly(t *testing.T) {
	server := newServer(t, &domain{})
	growth.Face{
		Handler: server.Handler(), Header: http.Header{"Authorization": {"Bearer svc"}, "X-Organization-Id": {"acme"}},
		Methods: server.Served(), Bodies: bodies,
	}.Linear(t)
}

func TestCallsGrowsLinearly(t *testing.T) {
	server := newServer(t, &domain{})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc", "x-organization-id", "acme")
	growth.Calls{
		Conn: testkit.Dial(t, server.GRPC()), Methods: growth.MethodsOf(server.Served()),
	}.Linear(ctx, t, 1<<20-8, 64<<20)
}
