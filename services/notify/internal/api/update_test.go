package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"

	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/platform/testkit"
)

// letters is the email channel without a mail server: what is queued stays.
type letters struct{}

func (letters) Channel() channel.Name { return channel.Email }

func (letters) Prepare(_ context.Context, m channel.Message) (channel.Work, error) {
	text, err := json.Marshal(map[string]any{"to": m.Target.Email, "subject": m.Subject, "text": m.Text, "data": string(m.Target.Data)})
	return channel.Work{Channel: channel.Email, Body: text, Destination: "smtp://x"}, err
}

func withLetters(_ *testing.T, _ *bench, p *overrides) { p.senders = append(p.senders, letters{}) }

type updated struct {
	NotificationID string   `json:"notification_id"`
	UpdateID       string   `json:"update_id"`
	Number         int      `json:"number"`
	Channels       []string `json:"accepted_channels"`
}

const ask = `{"channels":["in_app","email"],"subject":"Deploy?","message":"Waits for you.",
	"target":{"user_id":"ann","email":"ann@example.com","data":{"a":1}},
	"actions":[{"id":"approve","label":"Approve","style":"primary","url":"https://a.example/1","value":"v"},{"id":"deny","label":"Deny"}]}`

func (b *bench) ask(t *testing.T) string {
	t.Helper()
	var got accepted
	b.do(t, "POST", "/v1/notify", ask).into(t, 202, &got)
	return got.NotificationID
}

func updatesOf(id string) string { return "/v1/notifications/sends/" + id + "/updates" }

// TestUpdateSend updates a notification over HTTP and over gRPC: the record changes in place and stays unread, the mail
// that was not sent is superseded, and the log says both.
func TestUpdateSend(t *testing.T) {
	b := setup(t, withLetters)
	id := b.ask(t)
	s := b.stream(t, "?user_id=ann")
	s.want(t, "ready 1 1")
	var first updated
	b.do(t, "POST", updatesOf(id), `{"message":"Ann approved.","actions":[{"id":"open","label":"Open"}]}`).into(t, 202, &first)
	if first.NotificationID != id || first.Number != 1 || first.UpdateID == id || strings.Join(first.Channels, " ") != "in_app email" {
		t.Errorf("accepted %+v", first)
	}
	if e := s.want(t, "updated 2 1")[0]; e.Data.Unread != 1 || e.Data.Record == nil || e.Data.Record.Text != "Ann approved." || e.Data.NotificationID != e.Data.Record.ID {
		t.Errorf("event %+v", e)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer svc", "x-organization-id", "acme")
	client := notifyv1.NewNotifyServiceClient(b.conn)
	second, err := client.UpdateSend(ctx, &notifyv1.UpdateSendRequest{NotificationId: id, Subject: "Deployed", Message: "It is done."})
	if err != nil || second.GetNumber() != 2 {
		t.Fatal(second, err)
	}
	page, err := notifyv1.NewInboxServiceClient(b.conn).ListNotifications(ctx, &notifyv1.ListNotificationsRequest{UserId: "ann"})
	if err != nil || len(page.GetNotifications()) != 1 || page.GetUnreadCount() != 1 {
		t.Fatal(page, err)
	}
	if n := page.GetNotifications()[0]; n.GetSubject() != "Deployed" || n.GetMessage() != "It is done." || len(n.GetActions()) != 0 || n.GetUpdatedAt() == nil || n.GetRead() {
		t.Errorf("record %v", n)
	}
	log, err := client.GetSend(ctx, &notifyv1.GetSendRequest{NotificationId: id})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range log.GetChannels() {
		got = append(got, "0 "+describe(c))
	}
	for _, u := range log.GetUpdates() {
		for _, c := range u.GetChannels() {
			got = append(got, fmt.Sprint(u.GetNumber(), " ", describe(c)))
		}
	}
	want := []string{"0 in_app delivered 2", "0 email superseded 0", "1 in_app delivered 1 replaced", "1 email superseded 0", "2 in_app delivered 0 replaced", "2 email queued 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
	own, err := client.GetSend(ctx, &notifyv1.GetSendRequest{NotificationId: first.UpdateID})
	if err != nil || own.GetUpdatesNotificationId().GetValue() != id || len(own.GetUpdates()) != 0 || len(own.GetAttempts()) != 1 {
		t.Errorf("the update's own log: %v, %v", own, err)
	}
}

func describe(c *notifyv1.ChannelOutcome) string {
	text := fmt.Sprint(c.GetChannel(), " ", c.GetStatus(), " ", c.GetActionsShown())
	if c.GetReplaced() {
		text += " replaced"
	}
	return text
}

// TestUpdateKeepsTarget checks that an update goes where the notification went, with its subject if it names none.
func TestUpdateKeepsTarget(t *testing.T) {
	var box *overrides
	b := setup(t, withLetters, func(_ *testing.T, _ *bench, p *overrides) { box = p })
	id := b.ask(t)
	var got updated
	b.do(t, "POST", updatesOf(id), `{"message":"Done."}`).into(t, 202, &got)
	sealed := testkit.Value[[]byte](t, b.pool, "SELECT work FROM channel_send WHERE notification_id = $1 AND channel = 'email'", got.UpdateID)
	text, err := box.box.Open(sealed, got.UpdateID+"/email")
	if want := `{"data":"{\"a\":1}","subject":"Deploy?","text":"Done.","to":"ann@example.com"}`; err != nil || string(text) != want {
		t.Errorf("work %s, %v; want %s", text, err, want)
	}
	if kept := testkit.Value[[]byte](t, b.pool, "SELECT target FROM notification WHERE id = $1", id); strings.Contains(string(kept), "ann@") {
		t.Error("the target is in the clear")
	}
}

func TestUpdateSendRefuses(t *testing.T) {
	b := setup(t, withLetters)
	id := b.ask(t)
	var update updated
	b.do(t, "POST", updatesOf(id), `{"message":"m"}`, "Idempotency-Key", "u1").into(t, 202, &update)
	tests := map[string]struct {
		id, body string
		headers  []string
		status   int
		text     string
	}{
		"no message":           {id, `{}`, nil, 400, "message: "},
		"a subject of 2 lines": {id, `{"message":"m","subject":"a\nb"}`, nil, 400, "subject"},
		"four actions":         {id, `{"message":"m","actions":[{"id":"a","label":"A"},{"id":"b","label":"B"},{"id":"c","label":"C"},{"id":"d","label":"D"}]}`, nil, 400, "actions"},
		"an odd id":            {id, `{"message":"m","actions":[{"id":"a","label":"A"},{"id":"B","label":"B"}]}`, nil, 400, "actions[1].id"},
		"an id twice":          {id, `{"message":"m","actions":[{"id":"a","label":"A"},{"id":"a","label":"B"}]}`, nil, 400, "actions[1].id: must differ"},
		"a long label":         {id, `{"message":"m","actions":[{"id":"a","label":"` + strings.Repeat("x", 41) + `"}]}`, nil, 400, "actions[0].label"},
		"a turned label":       {id, `{"message":"m","actions":[{"id":"a","label":"x\u202ey"}]}`, nil, 400, "actions[0].label: must be one line"},
		"a script":             {id, `{"message":"m","actions":[{"id":"a","label":"A","url":"javascript:alert(1)"}]}`, nil, 400, "actions[0].url: must be an http"},
		"an unknown style":     {id, `{"message":"m","actions":[{"id":"a","label":"A","style":"red"}]}`, nil, 400, "actions[0].style"},
		"a long value":         {id, `{"message":"m","actions":[{"id":"a","label":"A","value":"` + strings.Repeat("x", 513) + `"}]}`, nil, 400, "actions[0].value"},
		"a target":             {id, `{"message":"m","target":{}}`, nil, 400, "target"},
		"another key's text":   {id, `{"message":"n"}`, []string{"Idempotency-Key", "u1"}, 422, "idempotency_key: was used"},
		"another organization": {id, `{"message":"m"}`, []string{"X-Organization-Id", "other"}, 404, "not found"},
		"an update":            {update.UpdateID, `{"message":"m"}`, nil, 404, "not found"},
		"an unknown id":        {"01890000-0000-7000-8000-000000000001", `{"message":"m"}`, nil, 404, "not found"},
		"no id":                {"x", `{"message":"m"}`, nil, 404, "not found"},
		"support's token":      {id, `{"message":"m"}`, []string{"Authorization", "Bearer sup"}, 403, "role service"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b.do(t, "POST", updatesOf(tt.id), tt.body, tt.headers...).refused(t, tt.status, tt.text)
		})
	}
	again := b.do(t, "POST", updatesOf(id), `{"message":"m"}`, "Idempotency-Key", "u1")
	var replayed updated
	if again.into(t, 200, &replayed); again.header.Get("Idempotent-Replayed") != "true" || !cmp.Equal(replayed, update) {
		t.Errorf("replayed %+v, want %+v", replayed, update)
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM notification WHERE updates_id IS NOT NULL"); n != 1 {
		t.Errorf("%d updates are stored, want one", n)
	}
	testkit.Exec(t, b.pool, "UPDATE notification SET target = NULL WHERE id = $1", id)
	b.do(t, "POST", updatesOf(id), `{"message":"m"}`).refused(t, 409, "kept no target")
}
