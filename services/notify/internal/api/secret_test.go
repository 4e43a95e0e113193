package api_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/metadata"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/platform/testkit"
)

// noMail is a mailer that accepts no mail.
type noMail struct{}

func (noMail) Send(context.Context, string, string, []byte) smtp.Reply {
	return smtp.Reply{Err: context.Canceled}
}

// A message's secret is never stored in the clear, returned or logged, whatever the channel.
func TestSecretIsNotKept(t *testing.T) {
	const secret = "canary-secret-0123456789"
	b := setup(t, withWebPush, func(t *testing.T, _ *bench, p *overrides) {
		t.Helper()
		email, err := channel.NewEmail(channel.EmailOptions{Mailer: noMail{}, Server: "mail.example.com:25", From: "shop@example.com"})
		if err != nil {
			t.Fatal(err)
		}
		p.senders = append(p.senders, email)
	})
	b.do(t, http.MethodPost, registrationsPath, browser(t, "https://fcm.googleapis.com/fcm/send/"+canaryPath, map[string]any{"user_id": "ann"})).want(t, http.StatusCreated)
	const body = `{"channels":["in_app","web_push","email"],"subject":"s","message":"m","secret":%q,"idempotency_key":"k1",
		"target":{"user_id":"ann","email":"ann@example.com","url":"https://shop.example/x/{secret}","data":{"at":"{secret}"}},
		"actions":[{"id":"open","label":"Open","url":"https://shop.example/x/{secret}"}]}`
	var sent accepted
	b.do(t, http.MethodPost, "/v1/notify", fmt.Sprintf(body, secret)).into(t, http.StatusAccepted, &sent)
	again := b.do(t, http.MethodPost, "/v1/notify", fmt.Sprintf(body, "another-secret-012345678"))
	again.want(t, http.StatusOK) // The stored digest of a request doesn't cover the secret.
	b.do(t, http.MethodPost, "/v1/notifications/sends/"+sent.NotificationID+"/updates", `{"message":"done"}`).want(t, http.StatusAccepted)
	for _, path := range []string{
		"/v1/notifications?user_id=ann", "/v1/push/history?user_id=ann", "/v1/notifications/sends", "/v1/notifications/sends/" + sent.NotificationID,
	} {
		answer := b.do(t, http.MethodGet, path, "")
		answer.want(t, http.StatusOK)
		testkit.NoLeak(t, secret, answer.body)
	}
	if inbox := b.do(t, http.MethodGet, "/v1/notifications?user_id=ann", ""); !strings.Contains(inbox.body, `"url":"https://shop.example/x/"`) || strings.Contains(inbox.body, "{secret}") {
		t.Errorf("the inbox is %s", inbox.body)
	}
	testkit.NoLeak(t, secret, b.log.String(), again.body)
	rows, err := b.pool.Query(t.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 10 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	for _, table := range tables {
		var text string
		if err := b.pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(t::text, ' '), '') FROM `+pgx.Identifier{table}.Sanitize()+` AS t`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
			t.Errorf("the table %s has the secret: %s", table, text)
		}
	}
}

// A device counts as registered by its user only if the edge has verified that user, over HTTP and gRPC. It no longer
// does once a caller that only names the user registers it again.
func TestDeviceIsRegisteredByItsUser(t *testing.T) {
	b := setup(t, withWebPush)
	register := func(headers ...string) bool {
		t.Helper()
		var device struct {
			ByUser bool `json:"registered_by_user"`
		}
		body := browser(t, "https://fcm.googleapis.com/fcm/send/"+canaryPath, map[string]any{"user_id": "ann"})
		answer := b.do(t, http.MethodPost, registrationsPath, body, headers...)
		answer.into(t, answer.status, &device)
		var listed struct {
			All []struct {
				ByUser bool `json:"registered_by_user"`
			} `json:"registrations"`
		}
		b.do(t, http.MethodGet, registrationsPath, "").into(t, http.StatusOK, &listed)
		if len(listed.All) != 1 || listed.All[0].ByUser != device.ByUser {
			t.Errorf("listed %+v, registered %+v", listed, device)
		}
		return device.ByUser
	}
	for name, tt := range map[string]struct {
		headers []string
		want    bool
	}{
		"a key that names the user":         {nil, false},
		"a key with the user's header":      {[]string{"X-User-Id", "ann"}, false},
		"a verified user":                   {[]string{"X-User-Id", "ann", "X-User-Verified", "true"}, true},
		"a verification of no one":          {[]string{"X-User-Verified", "true"}, false},
		"a verification of another meaning": {[]string{"X-User-Id", "ann", "X-User-Verified", "1"}, false},
	} {
		register("X-User-Id", "ann", "X-User-Verified", "true")
		if got := register(tt.headers...); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	push := notifyv1.NewPushServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme", "x-user-id", "ann", "x-user-verified", "true"))
	devices, err := push.ListPushRegistrations(ctx, &notifyv1.ListPushRegistrationsRequest{})
	if err != nil || len(devices.GetRegistrations()) != 1 {
		t.Fatalf("%v, %v", devices, err)
	}
	// A replica of the previous release moves the device to another user and leaves the column unchanged.
	if _, err := b.pool.Exec(t.Context(), `UPDATE push_subscription SET verified_user = 'ann', user_id = 'bob'`); err != nil {
		t.Fatal(err)
	}
	var listed registrations
	answer := b.do(t, http.MethodGet, registrationsPath, "")
	answer.into(t, http.StatusOK, &listed)
	if strings.Contains(answer.body, `"registered_by_user":true`) {
		t.Errorf("bob's device is %s", answer.body)
	}
}
