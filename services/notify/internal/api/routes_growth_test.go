package api_test

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/metadata"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestRoutesGrowsLinearly(t *testing.T) {
	b := setup(t, withWebPush)
	growth.Face{
		Handler: b.server.Handler(), Header: http.Header{"Authorization": {"Bearer ops"}, "X-Organization-Id": {"acme"}},
		Methods: b.server.Served(), Streams: []string{"GET /v1/notifications/stream"},
		Bodies: map[string]string{
			"POST /v1/notify": `{"channels":["in_app"],"subject":"Order 7","message":"It is on its way.","target":{"user_id":"bob"},"data":{"a":1}}`,
			"POST /v1/notifications/sends/{notification_id}/updates": `{"subject":"Order 7","message":"It has arrived.","actions":[{"id":"a","label":"Open","url":"https://a.example"}]}`,

			"PUT /v1/notifications/{id}/read": `{"user_id":"bob"}`,
			"PUT /v1/notifications/read-all":  `{"user_id":"bob"}`,
			"POST /v1/push/registrations":     browser(t, "https://fcm.googleapis.com/fcm/send/x", map[string]any{"user_id": "bob", "platform": "web"}),
		},
	}.Linear(t)
}

func TestCallsGrowsLinearly(t *testing.T) {
	b := setup(t, withWebPush)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ops", "x-organization-id", "acme")
	growth.Calls{
		Conn: b.conn, Methods: growth.MethodsOf(b.server.Served()),
	}.Linear(ctx, t, 1<<20-8, 64<<20)
}
