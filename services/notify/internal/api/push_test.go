package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/postgres"
	"switchyard.dev/services/notify/internal/webpush/webpushtest"
	"switchyard.dev/services/platform/testkit"
)

const endpoint = "https://fcm.googleapis.com/fcm/send/" + canaryPath

func TestVapidPublicKey(t *testing.T) {
	keys := webpushtest.NewKeys(t)
	b := setup(t, withKeys(keys))
	var got map[string]string
	b.do(t, "GET", "/v1/push/vapid-public-key", "").into(t, 200, &got)
	want := map[string]string{"public_key": keys.Keys().Current().Public(), "key_id": keys.Keys().Current().ID()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
}

func TestRegisterUpserts(t *testing.T) {
	keys := webpushtest.NewKeys(t)
	b := setup(t, withKeys(keys))
	var first, again, other registration
	body := browser(t, endpoint, map[string]any{"user_id": "ann", "site_id": "shop"})
	b.do(t, "POST", registrationsPath, body).into(t, http.StatusCreated, &first)
	want := registration{
		SubID: first.SubID, User: new("ann"), Site: new("shop"), Platform: "web",
		Origin: "https://fcm.googleapis.com", KeyID: keys.Keys().Current().ID(), Status: "active",
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
	older := keys.Keys()[1].ID()
	if _, err := b.pool.Exec(t.Context(), "UPDATE push_subscription SET status = 'quarantined'"); err != nil {
		t.Fatal(err)
	}
	b.do(t, "POST", registrationsPath, browser(t, endpoint, map[string]any{"vapid_key_id": older}), "X-User-Id", "bob").into(t, http.StatusOK, &again)
	want.User, want.Site, want.KeyID = new("bob"), nil, older
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("registered again (-want +got):\n%s", diff)
	}
	b.do(t, "POST", registrationsPath, body, "X-Organization-Id", "other").into(t, http.StatusCreated, &other)
	if other.SubID == first.SubID {
		t.Error("two organizations share a device")
	}
	answer := b.do(t, "GET", registrationsPath, "")
	var list registrations
	answer.into(t, 200, &list)
	if len(list.All) != 1 || list.All[0].SubID != first.SubID {
		t.Errorf("list %+v", list)
	}
	testkit.NoLeak(t, canaryPath, answer.body, b.log.String())
	testkit.NoLeak(t, base64.RawURLEncoding.EncodeToString([]byte(canaryAuth)), answer.body, b.log.String())
}

func TestRegistrationsPages(t *testing.T) {
	b := setup(t, withWebPush)
	for i := range 5 {
		b.do(t, "POST", registrationsPath, browser(t, fmt.Sprint(endpoint, i), map[string]any{"user_id": fmt.Sprint("u", i%2), "site_id": "s"})).want(t, 201)
	}
	var seen []string
	query := "?limit=2"
	for pages := 0; query != "" && pages < 9; pages++ {
		var page registrations
		b.do(t, "GET", registrationsPath+query, "").into(t, 200, &page)
		for _, r := range page.All {
			seen = append(seen, r.SubID)
		}
		if query = ""; page.Next != "" {
			query = "?limit=2&cursor=" + page.Next
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d devices over all pages: %v", len(seen), seen)
	}
	for query, want := range map[string]int{"?user_id=u0": 3, "?user_id=u1&site_id=s": 2, "?site_id=x": 0, "?user_id=nobody": 0} {
		var page registrations
		if b.do(t, "GET", registrationsPath+query, "").into(t, 200, &page); len(page.All) != want {
			t.Errorf("%s: %d devices, want %d", query, len(page.All), want)
		}
	}
	b.do(t, "GET", registrationsPath+"?cursor=nope", "").refused(t, 400, "cursor")
}

func TestRegisterRefuses(t *testing.T) {
	b := setup(t, withWebPush)
	good := browser(t, endpoint, nil)
	tests := map[string]struct {
		body    string
		headers []string
		status  int
		text    string
	}{
		"no subscription":      {`{}`, nil, 400, "subscription"},
		"fcm":                  {browser(t, endpoint, map[string]any{"platform": "fcm"}), nil, 400, "platform_reserved"},
		"apns":                 {browser(t, endpoint, map[string]any{"platform": "apns"}), nil, 400, "platform_reserved"},
		"another platform":     {browser(t, endpoint, map[string]any{"platform": "tv"}), nil, 400, "platform"},
		"an unknown key":       {browser(t, endpoint, map[string]any{"vapid_key_id": "k"}), nil, 400, "vapid_key_id"},
		"a stranger's host":    {browser(t, "https://evil.example/"+canaryPath, nil), nil, 400, "subscription.endpoint"},
		"the metadata service": {browser(t, "https://169.254.169.254/x.apple.com/"+canaryPath, nil), nil, 400, "subscription.endpoint"},
		"http":                 {browser(t, "http://fcm.googleapis.com/"+canaryPath, nil), nil, 400, "subscription.endpoint"},
		"no auth":              {strings.Replace(good, `"auth"`, `"other"`, 1), nil, 400, "subscription.keys.auth"},
		"no p256dh":            {strings.Replace(good, `"p256dh"`, `"other"`, 1), nil, 400, "subscription.keys.p256dh"},
		"a bad point":          {strings.Replace(good, `"p256dh":"B`, `"p256dh":"C`, 1), nil, 400, "subscription.keys.p256dh"},
		"users that differ":    {browser(t, endpoint, map[string]any{"user_id": "ann"}), []string{"X-User-Id", "bob"}, 400, "user_id"},
		"another organization": {browser(t, endpoint, map[string]any{"organization_id": "evil"}), nil, 403, "organization_id"},
		"an odd site":          {browser(t, endpoint, map[string]any{"site_id": "a b"}), nil, 400, "site_id"},
		"no token":             {good, []string{"Authorization", ""}, 401, "token"},
		"support's token":      {good, []string{"Authorization", "Bearer sup"}, 403, "role service"},
		"far in the future":    {strings.Replace(good, `"expirationTime":null`, `"expirationTime":1e300`, 1), nil, 400, "expiration_time"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b.do(t, "POST", registrationsPath, tt.body, tt.headers...).refused(t, tt.status, tt.text)
		})
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM push_subscription"); n != 0 {
		t.Errorf("%d devices of refused registrations", n)
	}
	testkit.NoLeak(t, canaryPath, b.log.String())
	testkit.NoLeak(t, base64.RawURLEncoding.EncodeToString([]byte(canaryAuth)), b.log.String())
}

func TestDeleteRegistration(t *testing.T) {
	b := setup(t, withWebPush)
	var r registration
	b.do(t, "POST", registrationsPath, browser(t, endpoint, map[string]any{"user_id": "ann"})).into(t, 201, &r)
	path := registrationsPath + "/" + r.SubID
	b.do(t, "DELETE", path, "", "X-Organization-Id", "other").refused(t, 404, "subscription not found")
	b.do(t, "DELETE", path, "", "X-User-Id", "bob").refused(t, 404, "subscription not found")
	b.do(t, "DELETE", registrationsPath+"/nonsense", "").refused(t, 404, "subscription not found")
	if a := b.do(t, "DELETE", path, "", "X-User-Id", "ann"); a.status != http.StatusNoContent || a.body != "" {
		t.Errorf("delete: %d %s", a.status, a.body)
	}
	b.do(t, "DELETE", path, "").refused(t, 404, "subscription not found")
}

// What a device is pushed with is nowhere in the clear, nor is the message of a
// one-off push's work.
func TestNothingOfADeviceIsInTheClear(t *testing.T) {
	b := setup(t, withWebPush)
	b.do(t, "POST", registrationsPath, browser(t, endpoint, map[string]any{"user_id": "ann"})).want(t, 201)
	var once struct {
		Subscription json.RawMessage `json:"subscription"`
	}
	if err := json.Unmarshal([]byte(browser(t, endpoint, nil)), &once); err != nil {
		t.Fatal(err)
	}
	b.do(t, "POST", "/v1/notify", `{"channels":["web_push"],"message":"m","target":{"subscription":`+string(once.Subscription)+`}}`).want(t, 202)
	rows := b.dump(t)
	testkit.NoLeak(t, canaryPath, rows, b.log.String())
	testkit.NoLeak(t, canaryAuth, rows, b.log.String())
}

// dump is every row of the schema, bytes as they are.
func (b *bench) dump(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, table := range []string{"notification", "channel_send", "recipient", "attempt", "idempotency_key", "push_subscription", "push_expansion", "push_history", "inbox_record", "inbox_event"} {
		rows, err := b.pool.Query(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				if raw, ok := v.([]byte); ok {
					v = string(raw)
				}
				fmt.Fprintln(&all, v)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func TestNotifyWebPushTargets(t *testing.T) {
	b := setup(t, withWebPush)
	var once struct {
		Subscription json.RawMessage `json:"subscription"`
	}
	if err := json.Unmarshal([]byte(browser(t, endpoint, nil)), &once); err != nil {
		t.Fatal(err)
	}
	evil := strings.Replace(string(once.Subscription), "fcm.googleapis.com", "evil.example", 1)
	tests := map[string]struct {
		target string
		status int
		text   string
	}{
		"a user":             {`{"user_id":"ann"}`, 202, ""},
		"everybody":          {`{"broadcast":true}`, 202, ""},
		"a device":           {`{"subscription":` + string(once.Subscription) + `}`, 202, ""},
		"nobody":             {`{}`, 400, "channel web_push: target: must have exactly one"},
		"two":                {`{"user_id":"ann","broadcast":true}`, 400, "channel web_push: target: must have exactly one"},
		"a stranger's host":  {`{"subscription":` + evil + `}`, 400, "channel web_push: target.subscription: endpoint"},
		"no keys":            {`{"subscription":{"endpoint":"` + endpoint + `","keys":{"x":"y"}}}`, 400, "target.subscription: keys.p256dh"},
		"a script":           {`{"user_id":"ann","url":"javascript:x"}`, 400, "channel web_push: target.url"},
		"data without room":  {`{"user_id":"ann","data":{"x":"` + strings.Repeat("x", 600) + `"}}`, 413, "channel web_push: target.data"},
		"an unknown urgency": {`{"user_id":"ann","urgency":"now"}`, 400, "urgency"},
		"a topic with space": {`{"user_id":"ann","topic":"a b"}`, 400, "topic"},
		"a TTL of a year":    {`{"user_id":"ann","ttl_seconds":31536000}`, 400, "ttl_seconds"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := b.do(t, "POST", "/v1/notify", `{"channels":["web_push"],"message":"m","target":`+tt.target+`}`)
			if tt.status != 202 {
				a.refused(t, tt.status, tt.text)
				return
			}
			a.want(t, 202)
		})
	}
}

// A send to a user adds the user's active devices of the site, and one to a user
// without any ends at once.
func TestNotifyAddsDevices(t *testing.T) {
	b := setup(t, withWebPush)
	for i, more := range []map[string]any{
		{"user_id": "ann", "site_id": "a"}, {"user_id": "ann", "site_id": "b"}, {"user_id": "ann"}, {"user_id": "bob"}, {"user_id": "ann", "site_id": "a"},
	} {
		b.do(t, "POST", registrationsPath, browser(t, fmt.Sprint(endpoint, i), more)).want(t, 201)
	}
	if _, err := b.pool.Exec(t.Context(), "UPDATE push_subscription SET status = 'quarantined' WHERE sub_id = (SELECT max(sub_id::text)::uuid FROM push_subscription)"); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]int{`{"user_id":"ann"}`: 3, `{"user_id":"ann","site_id":"a"}`: 2, `{"user_id":"ann","site_id":"c"}`: 1, `{"user_id":"cay"}`: 0} {
		var sent accepted
		b.do(t, "POST", "/v1/notify", `{"channels":["web_push"],"message":"m","subject":"s","target":`+target+`}`).into(t, 202, &sent)
		if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM recipient WHERE notification_id = $1", sent.NotificationID); n != want {
			t.Errorf("%s: %d devices, want %d", target, n, want)
		}
		var log struct {
			Status   string
			Channels []struct {
				Status   string
				Targeted int `json:"targeted_count"`
			}
		}
		b.do(t, "GET", "/v1/notifications/sends/"+sent.NotificationID, "").into(t, 200, &log)
		status := "pending"
		if want == 0 {
			status = "failed"
		}
		if log.Status != status || log.Channels[0].Targeted != want {
			t.Errorf("%s: log %+v", target, log)
		}
	}
	var page struct{ History []map[string]any }
	b.do(t, "GET", "/v1/push/history", "").into(t, 200, &page)
	if len(page.History) != 1 {
		t.Fatalf("history %+v, want the send that has ended", page.History)
	}
	for field, want := range map[string]any{"status": "no_devices", "user_id": "cay", "title": "s"} {
		if got := page.History[0][field]; got != want {
			t.Errorf("%s %v, want %v", field, got, want)
		}
	}
}

// A broadcast grows page by page, skips whom it is not for, and begins again
// where it was when the one that added was killed.
func TestBroadcastPages(t *testing.T) {
	b := setup(t, withWebPush)
	for i := range 7 {
		b.do(t, "POST", registrationsPath, browser(t, fmt.Sprint(endpoint, i), map[string]any{"site_id": "s" + fmt.Sprint(i%2)})).want(t, 201)
	}
	var sent accepted
	b.do(t, "POST", "/v1/notify", `{"channels":["web_push"],"message":"m","target":{"broadcast":true,"site_id":"s0"}}`).into(t, 202, &sent)
	b.do(t, "POST", registrationsPath, browser(t, endpoint+"late", map[string]any{"site_id": "s0"})).want(t, 201)
	devices := postgres.NewDevices(b.pool)
	var counts []int
	for range 4 {
		found, err := devices.AddPage(t.Context(), 3, 3)
		if err != nil {
			t.Fatal(err)
		}
		if counts = append(counts, testkit.Value[int](t, b.pool, "SELECT count(*) FROM recipient")); !found {
			break
		}
	}
	// s0 has devices 0, 2, 4 and 6; three of them waiting are enough.
	if diff := cmp.Diff([]int{2, 3, 3}, counts); diff != "" {
		t.Errorf("devices after each page (-want +got):\n%s", diff)
	}
	if _, err := b.pool.Exec(t.Context(), "UPDATE push_expansion SET after_sub = $1", uuid.Nil); err != nil { // as if a page were done again
		t.Fatal(err)
	}
	for range 9 {
		if found, err := devices.AddPage(t.Context(), 3, 1000); err != nil || !found {
			break
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM recipient"); n != 4 {
		t.Errorf("%d devices, want 4 and none twice", n)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT targeted_count FROM channel_send WHERE NOT expanding"); n != 4 {
		t.Errorf("%d targeted", n)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM push_expansion"); n != 0 {
		t.Error("the broadcast still expands")
	}
	b.do(t, "POST", "/v1/notify", `{"channels":["web_push"],"message":"m","target":{"broadcast":true,"site_id":"none"}}`).want(t, 202)
	if _, err := devices.AddPage(t.Context(), 100, 1000); err != nil {
		t.Fatal(err)
	}
	var page struct{ History []map[string]any }
	b.do(t, "GET", "/v1/push/history", "").into(t, 200, &page)
	if len(page.History) != 1 || page.History[0]["status"] != "no_devices" || page.History[0]["user_id"] != "" {
		t.Errorf("history %+v", page.History)
	}
}

// A broadcast whose page the store can't hold ends where it stands: others wait
// behind it.
func TestBroadcastThatCannotBeStored(t *testing.T) {
	b := setup(t, withWebPush)
	b.do(t, "POST", registrationsPath, browser(t, endpoint, nil)).want(t, 201)
	b.do(t, "POST", "/v1/notify", `{"channels":["web_push"],"message":"m","target":{"broadcast":true}}`).want(t, 202)
	if _, err := b.pool.Exec(t.Context(), "ALTER TABLE recipient ADD CONSTRAINT broken CHECK (channel <> 'web_push') NOT VALID"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.NewDevices(b.pool).AddPage(t.Context(), 100, 1000); err == nil {
		t.Error("AddPage reports a page whose rows were refused as stored")
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM push_expansion"); n != 0 {
		t.Errorf("%d broadcasts expand, want none", n)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM channel_send WHERE status = 'failed'"); n != 1 {
		t.Errorf("%d channels have failed, want 1", n)
	}
}
