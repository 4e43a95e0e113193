package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/platform/testkit"
)

func TestNotifyAccepts(t *testing.T) {
	b := setup(t)
	var got accepted
	b.do(t, "POST", "/v1/notify",
		`{"channels":["in_app"],"subject":"Order","message":"Shipped","target":{"user_id":"ann","url":"/orders/7","data":{"b": 1,"a":12345678901234567890}}}`,
	).into(t, http.StatusAccepted, &got)
	if diff := cmp.Diff([]string{"in_app"}, got.AcceptedChannels); diff != "" {
		t.Errorf("accepted channels (-want +got):\n%s", diff)
	}
	page := b.list(t, "?user_id=ann")
	if len(page.Records) != 1 || page.Unread != 1 {
		t.Fatalf("inbox = %+v, want one unread record", page)
	}
	if data := string(page.Records[0].Data); data != `{"b": 1,"a":12345678901234567890}` {
		t.Errorf("data = %s, want the bytes that were sent", data)
	}
	if others := b.list(t, ""); len(others.Records) != 0 || others.Unread != 0 {
		t.Errorf("the organization's notices = %+v, want none", others)
	}
}

func TestNotifyRefuses(t *testing.T) {
	b := setup(t)
	tests := map[string]struct {
		body    string
		headers []string
		status  int
		text    string
	}{
		"slack":                  {`{"channels":["slack"],"message":"m"}`, nil, 400, "channel slack: channel_not_configured: "},
		"email":                  {`{"channels":["email"],"message":"m","target":{"email":"a@example.com"}}`, nil, 400, "channel email: channel_not_configured: "},
		"webhook":                {`{"channels":["webhook"],"message":"m","target":{"url":"https://example.com"}}`, nil, 400, "channel webhook: channel_not_configured: "},
		"web push":               {`{"channels":["web_push"],"message":"m"}`, nil, 400, "channel web_push: web_push_disabled: web push is off; NOTIFY_WEB_PUSH_ENABLED"},
		"one of two":             {`{"channels":["in_app","email"],"message":"m"}`, nil, 400, "channel email: "},
		"unknown channel":        {`{"channels":["sms"],"message":"m"}`, nil, 400, "channels[0]"},
		"channel twice":          {`{"channels":["in_app","in_app"],"message":"m"}`, nil, 400, "channels"},
		"no channel":             {`{"message":"m"}`, nil, 400, "channels"},
		"no message":             {`{"channels":["in_app"]}`, nil, 400, "message: "},
		"NUL in the message":     {`{"channels":["in_app"],"message":"a\u0000b"}`, nil, 400, "message: must not hold a zero byte"},
		"two lines of subject":   {`{"channels":["in_app"],"message":"m","subject":"a\nb"}`, nil, 400, "subject"},
		"script link":            {`{"channels":["in_app"],"message":"m","target":{"url":"javascript:alert(1)"}}`, nil, 400, "channel in_app: target.url: "},
		"data is no object":      {`{"channels":["in_app"],"message":"m","target":{"data":[1]}}`, nil, 400, "channel in_app: target.data: "},
		"user with spaces":       {`{"channels":["in_app"],"message":"m","target":{"user_id":"a b"}}`, nil, 400, "user_id"},
		"NUL in the user":        {`{"channels":["in_app"],"message":"m","target":{"user_id":"a\u0000"}}`, nil, 400, "user_id"},
		"NUL in the key":         {`{"channels":["in_app"],"message":"m","idempotency_key":"a\u0000"}`, nil, 400, "idempotency_key"},
		"users that differ":      {`{"channels":["in_app"],"message":"m","target":{"user_id":"ann"}}`, []string{"X-User-Id", "bob"}, 400, "user_id: differs"},
		"keys that differ":       {`{"channels":["in_app"],"message":"m","idempotency_key":"a"}`, []string{"Idempotency-Key", "b"}, 400, "idempotency_key: differs"},
		"another organization":   {`{"channels":["in_app"],"message":"m","organization_id":"evil"}`, nil, 403, "organization_id"},
		"no organization":        {`{"channels":["in_app"],"message":"m"}`, []string{"X-Organization-Id", ""}, 400, "organization_id: is required"},
		"odd organization":       {`{"channels":["in_app"],"message":"m","organization_id":"a\u0000"}`, []string{"X-Organization-Id", ""}, 400, "organization_id: must"},
		"unknown field":          {`{"channels":["in_app"],"message":"m","colour":"red"}`, nil, 400, "colour"},
		"bad JSON":               {`{"channels":`, nil, 400, "invalid JSON"},
		"no object":              {`[]`, nil, 400, "must be a JSON object"},
		"too large":              {`{"message":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "larger than"},
		"message over the limit": {`{"channels":["in_app"],"message":"` + strings.Repeat("x", 40001) + `"}`, nil, 400, "message"},
		"no token":               {`{}`, []string{"Authorization", ""}, 401, "service token is required"},
		"wrong token":            {`{}`, []string{"Authorization", "Bearer nope"}, 401, "not valid"},
		"support's token":        {`{}`, []string{"Authorization", "Bearer sup"}, 403, "role service"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b.do(t, "POST", "/v1/notify", tt.body, tt.headers...).refused(t, tt.status, tt.text)
		})
	}
	for _, table := range []string{"notification", "channel_send", "attempt", "inbox_record", "inbox_counter", "idempotency_key"} {
		if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%s holds %d rows of refused requests", table, n)
		}
	}
}

func TestErrorsOfRouting(t *testing.T) {
	b := setup(t)
	b.do(t, "GET", "/v1/nope", "").refused(t, 404, "not found")
	b.do(t, "GET", "/nope", "").refused(t, 404, "not found")
	got := b.do(t, "GET", "/v1/notify", "")
	got.refused(t, 405, "not allowed")
	if allow := got.header.Get("Allow"); allow != "POST" {
		t.Errorf("Allow = %q, want POST", allow)
	}
	problem := b.do(t, "POST", "/v1/notify", `{"channels":["slack"],"message":"m"}`, "Accept", "application/problem+json")
	var document struct{ Code, Detail string }
	problem.into(t, 400, &document)
	if document.Code != "channel_not_configured" || problem.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("problem = %s", problem.body)
	}
}

func TestIdempotency(t *testing.T) {
	b := setup(t)
	const body = `{"channels":["in_app"],"message":"m","target":{"user_id":"ann"}}`
	var first accepted
	fresh := b.do(t, "POST", "/v1/notify", body, "Idempotency-Key", "k1")
	fresh.into(t, 202, &first)
	if fresh.header.Get("Idempotent-Replayed") != "" {
		t.Error("the first answer says that it is replayed")
	}
	tests := map[string]struct {
		body     string
		headers  []string
		status   int
		replayed bool
	}{
		"the same":                {body, []string{"Idempotency-Key", "k1"}, 200, true},
		"fields in other order":   {`{"target":{"user_id":"ann"},"message":"m","channels":["in_app"]}`, []string{"Idempotency-Key", "k1"}, 200, true},
		"key in the body":         {`{"channels":["in_app"],"message":"m","target":{"user_id":"ann"},"idempotency_key":"k1"}`, nil, 200, true},
		"user in the header":      {`{"channels":["in_app"],"message":"m"}`, []string{"Idempotency-Key", "k1", "X-User-Id", "ann"}, 200, true},
		"other text":              {`{"channels":["in_app"],"message":"n","target":{"user_id":"ann"}}`, []string{"Idempotency-Key", "k1"}, 422, false},
		"a field nobody reads":    {`{"channels":["in_app"],"message":"m","target":{"user_id":"ann","site_id":"s"}}`, []string{"Idempotency-Key", "k1"}, 422, false},
		"a secret nobody reads":   {`{"channels":["in_app"],"message":"m","target":{"user_id":"ann","webhook_url":"https://x"}}`, []string{"Idempotency-Key", "k1"}, 422, false},
		"other key":               {body, []string{"Idempotency-Key", "k2"}, 202, false},
		"of another organization": {body, []string{"Idempotency-Key", "k1", "X-Organization-Id", "other"}, 202, false},
		"no key":                  {body, nil, 202, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := b.do(t, "POST", "/v1/notify", tt.body, tt.headers...)
			if got.status != tt.status {
				t.Fatalf("status %d, want %d: %s", got.status, tt.status, got.body)
			}
			if replayed := got.header.Get("Idempotent-Replayed") == "true"; replayed != tt.replayed {
				t.Errorf("replayed = %v, want %v", replayed, tt.replayed)
			}
			if tt.replayed && got.body != fresh.body {
				t.Errorf("answer %s, want the first %s", got.body, fresh.body)
			}
			if !tt.replayed && strings.Contains(got.body, first.NotificationID) {
				t.Error("another request was answered with the first one's id")
			}
		})
	}
}

// Fifty callers at once with one key and two bodies: one body wins, once.
func TestIdempotencyInParallel(t *testing.T) {
	b := setup(t)
	answers := make([]answer, 50)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			body := `{"channels":["in_app"],"message":"` + []string{"even", "odd"}[i%2] + `"}`
			answers[i] = b.do(t, "POST", "/v1/notify", body, "Idempotency-Key", "same")
		})
	}
	wg.Wait()
	fresh, statuses, bodies := 0, map[int]int{}, map[string]bool{}
	for _, a := range answers {
		statuses[a.status]++
		if a.status == http.StatusAccepted || a.status == http.StatusOK {
			bodies[a.body] = true
			if a.header.Get("Idempotent-Replayed") == "" {
				fresh++
			}
		}
	}
	if diff := cmp.Diff(map[int]int{200: 24, 202: 1, 422: 25}, statuses); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if fresh != 1 || len(bodies) != 1 {
		t.Errorf("%d fresh answers of %d kinds, want one of one", fresh, len(bodies))
	}
	if page := b.list(t, ""); len(page.Records) != 1 || page.Unread != 1 {
		t.Errorf("inbox = %+v, want one record", page)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM notification"); n != 1 {
		t.Errorf("%d notifications, want 1", n)
	}
}

func TestGetSend(t *testing.T) {
	type channelSent struct {
		Channel, Status, Outcome string
		Attempts                 int
		LastError                *string `json:"last_error"`
		NextAttemptAt            *string `json:"next_attempt_at"`
		DeliveredCount           int     `json:"delivered_count"`
	}
	type attemptMade struct {
		Channel, Outcome string
		Number           int
		Error            *string `json:"error"`
	}
	b := setup(t)
	id := b.notifyUser(t, "ann", "m")
	var got struct {
		Status   string        `json:"status"`
		Channels []channelSent `json:"channels"`
		Attempts []attemptMade `json:"attempts"`
	}
	b.do(t, "GET", "/v1/notifications/sends/"+id, "").into(t, 200, &got)
	if got.Status != "delivered" || len(got.Channels) != 1 || len(got.Attempts) != 1 {
		t.Fatalf("send = %+v, want one delivered channel with one attempt", got)
	}
	channel := channelSent{Channel: "in_app", Status: "delivered", Outcome: "ok", Attempts: 1, DeliveredCount: 1}
	if diff := cmp.Diff(channel, got.Channels[0]); diff != "" {
		t.Errorf("channel (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(attemptMade{Channel: "in_app", Outcome: "ok", Number: 1}, got.Attempts[0]); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
	b.do(t, "GET", "/v1/notifications/sends/"+id, "", "X-Organization-Id", "other").refused(t, 404, "not found")
	b.do(t, "GET", "/v1/notifications/sends/nope", "").refused(t, 404, "not found")
	b.do(t, "GET", "/v1/notifications/sends/"+strings.ToUpper(id), "").refused(t, 404, "not found")
	b.do(t, "GET", "/v1/notifications/sends/"+id+"?cursor=x", "").refused(t, 400, "cursor")
}

// A Slack webhook's URL lets anyone post: wherever it turns up in a request, it
// must not come out in answers, logs or rows.
func TestWebhookURLStaysHidden(t *testing.T) {
	const canary = "T00/B00/ZcanaryZcanaryZ"
	const link = "https://hooks.slack.com/services/" + canary
	b := setup(t)
	bodies := map[string]string{
		"refused channel": `{"channels":["slack"],"message":"m","target":{"webhook_url":"` + link + `"}}`,
		"unused":          `{"channels":["in_app"],"message":"m","target":{"webhook_url":"` + link + `"},"idempotency_key":"k"}`,
		"too long":        `{"channels":["slack"],"message":"m","target":{"webhook_url":"` + link + strings.Repeat("x", 2048) + `"}}`,
		"in an array":     `{"channels":["slack"],"message":"m","target":{"webhook_url":["` + link + `"]}}`,
		"in an object":    `{"channels":["slack"],"message":"m","target":{"webhook_url":{"u":"` + link + `"}}}`,
		"broken JSON":     `{"channels":["slack"],"message":"m","target":{"webhook_url":"` + link + `" oops}}`,
		"unknown sibling": `{"channels":["slack"],"message":"m","target":{"webhook_url":"` + link + `","x":1}}`,
		"wrong sibling":   `{"channels":["in_app"],"message":"m","target":{"webhook_url":"` + link + `","url":"javascript:"}}`,
		"used as a link":  `{"channels":["in_app"],"message":"m","target":{"url":"ftp://hooks.slack.com/` + canary + `"}}`,
	}
	var shown []string
	for name, body := range bodies {
		for i, accept := range []string{"application/json", "application/problem+json"} {
			got, want := b.do(t, "POST", "/v1/notify", body, "Accept", accept), 400
			if name == "unused" {
				want = []int{202, 200}[i] // the second is a repeat
			}
			if got.status != want {
				t.Errorf("%s: status %d, want %d: %s", name, got.status, want, got.body)
			}
			shown = append(shown, got.body)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc", "x-organization-id", "acme")
	_, err := notifyv1.NewNotifyServiceClient(b.conn).Notify(ctx, &notifyv1.NotifyRequest{
		Channels: []string{"slack"}, Message: "m", Target: &notifyv1.NotifyTarget{WebhookUrl: link},
	})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("gRPC error = %v, want InvalidArgument", err)
	}
	shown = append(shown, err.Error(), b.log.String())
	for _, table := range []string{"notification", "channel_send", "attempt", "inbox_record", "inbox_counter", "idempotency_key"} {
		var rows json.RawMessage
		query := "SELECT coalesce(json_agg(t), '[]') FROM " + table + " AS t"
		if err := b.pool.QueryRow(t.Context(), query).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		shown = append(shown, string(rows))
	}
	testkit.NoLeak(t, canary, shown...)
}

// The two faces are one set of handlers.
func TestGRPCFace(t *testing.T) {
	b := setup(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc", "x-organization-id", "acme", "idempotency-key", "k")
	client := notifyv1.NewNotifyServiceClient(b.conn)
	request := &notifyv1.NotifyRequest{Channels: []string{"in_app"}, Message: "m", Target: &notifyv1.NotifyTarget{UserId: "ann"}}
	got, err := client.Notify(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	var over accepted
	b.do(t, "POST", "/v1/notify", `{"channels":["in_app"],"message":"m","target":{"user_id":"ann"}}`, "Idempotency-Key", "k").into(t, 200, &over)
	if over.NotificationID != got.GetNotificationId() {
		t.Errorf("over HTTP the same request is %s, over gRPC %s", over.NotificationID, got.GetNotificationId())
	}
	_, err = client.Notify(t.Context(), request)
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	request.Message = "n"
	if _, err = client.Notify(ctx, request); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("other request under the key: %v", err)
	}
}
