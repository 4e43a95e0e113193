//go:build e2e

package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"switchyard.dev/deploy/dev/stack"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
)

const (
	notifyPath = "/v1/notify"
	inboxPath  = "/v1/notifications"
)

// record is an in-app notification.
type record struct {
	ID             string          `json:"id"`
	NotificationID string          `json:"notification_id"`
	Organization   string          `json:"organization_id"`
	User           *string         `json:"user_id"`
	Subject        string          `json:"subject"`
	Message        string          `json:"message"`
	URL            string          `json:"url"`
	Data           json.RawMessage `json:"data"`
	Read           bool            `json:"read"`
	ReadAt         *string         `json:"read_at"`
	CreatedAt      string          `json:"created_at"`
}

type inboxPage struct {
	Records    []record `json:"notifications"`
	Unread     int      `json:"unread_count"`
	NextCursor string   `json:"next_cursor"`
}

// inbox returns the newest records of a user, or for "" an organization's notices.
func (h *harness) inbox(t *testing.T, organization, user string) inboxPage {
	t.Helper()
	var page inboxPage
	h.service(stack.Notify, organization).with("X-User-Id", user).get(t, inboxPath).into(t, http.StatusOK, &page)
	return page
}

// notificationTo returns the body of a notification to a user.
func notificationTo(user, message string, more ...object) object {
	return object{"channels": []string{"in_app"}, "message": message, "target": object{"user_id": user}}.with(more...)
}

func TestNotificationThroughTheEdge(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	const data = `{"b": 1,"a":12345678901234567890}`
	a := h.customer(t, organization, "notifications", "write").post(t, sendRoute,
		`{"channels":["in_app"],"subject":"Order 7","message":"Shipped & <gone>","target":{"user_id":"ann","url":"https://shop.example/7","data":`+data+`}}`)
	found := a.fields(t, http.StatusAccepted, "notification_id", "accepted_channels")
	if channels, _ := found["accepted_channels"].([]any); len(channels) != 1 || channels[0] != "in_app" {
		t.Errorf("accepted %s", a.body)
	}

	page := h.inbox(t, organization, "ann")
	if len(page.Records) != 1 || page.Unread != 1 || page.NextCursor != "" {
		t.Fatalf("inbox %+v", page)
	}
	r := page.Records[0]
	want := record{
		ID: r.ID, NotificationID: found["notification_id"].(string), Organization: organization, User: new("ann"),
		Subject: "Order 7", Message: "Shipped & <gone>", URL: "https://shop.example/7", Data: json.RawMessage(data), CreatedAt: r.CreatedAt,
	}
	same(t, want, r)
	if r.ID == "" || r.CreatedAt == "" {
		t.Errorf("record %+v", r)
	}
}

func TestInbox(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	notify := h.service(stack.Notify, organization)
	for _, message := range []string{"one", "two", "three"} {
		notify.post(t, notifyPath, notificationTo("ann", message)).want(t, http.StatusAccepted)
	}
	notify.post(t, notifyPath, notificationTo("bob", "his")).want(t, http.StatusAccepted)
	notify.post(t, notifyPath, object{"channels": []string{"in_app"}, "message": "to all"}).want(t, http.StatusAccepted)

	box := h.inbox(t, organization, "ann")
	if len(box.Records) != 3 || box.Unread != 3 {
		t.Fatalf("%d records, %d unread, want 3 of each", len(box.Records), box.Unread)
	}
	same(t, []string{"three", "two", "one"}, []string{box.Records[0].Message, box.Records[1].Message, box.Records[2].Message})
	if notices := h.inbox(t, organization, ""); len(notices.Records) != 1 || notices.Records[0].User != nil {
		t.Errorf("notices %+v", notices)
	}
	three, two := box.Records[0].ID, box.Records[1].ID

	t.Run("pages", func(t *testing.T) {
		var first, second inboxPage
		notify.get(t, inboxPath+"?user_id=ann&limit=2").into(t, http.StatusOK, &first)
		notify.get(t, inboxPath+"?user_id=ann&limit=2&cursor="+first.NextCursor).into(t, http.StatusOK, &second)
		if len(first.Records) != 2 || len(second.Records) != 1 {
			t.Fatalf("pages of %d and %d records, want 2 and 1", len(first.Records), len(second.Records))
		}
		if second.NextCursor != "" || second.Records[0].Message != "one" {
			t.Errorf("the last page has %q and the cursor %q, want one and none", second.Records[0].Message, second.NextCursor)
		}
	})
	t.Run("read", func(t *testing.T) {
		var marked struct {
			Notification record `json:"notification"`
			Unread       int    `json:"unread_count"`
		}
		notify.do(t, http.MethodPut, inboxPath+"/"+two+"/read", nil).into(t, http.StatusOK, &marked)
		if !marked.Notification.Read || marked.Notification.ReadAt == nil || marked.Unread != 2 {
			t.Errorf("marked %+v", marked)
		}
		notify.do(t, http.MethodPut, inboxPath+"/"+two+"/read", object{}).want(t, http.StatusOK) // a repeat changes nothing
		var unread inboxPage
		notify.get(t, inboxPath+"?user_id=ann&unread=true").into(t, http.StatusOK, &unread)
		if len(unread.Records) != 2 || unread.Unread != 2 {
			t.Errorf("unread %+v", unread)
		}
	})
	t.Run("delete", func(t *testing.T) {
		if a := notify.do(t, http.MethodDelete, inboxPath+"/"+three, nil).want(t, http.StatusNoContent); len(a.body) != 0 {
			t.Errorf("204 with %s", a.body)
		}
		notify.do(t, http.MethodDelete, inboxPath+"/"+three, nil).refusedWith(t, http.StatusNotFound, "not found")
		if box := h.inbox(t, organization, "ann"); len(box.Records) != 2 || box.Unread != 1 {
			t.Errorf("inbox %+v", box)
		}
	})
	t.Run("of other users and organizations", func(t *testing.T) {
		one := box.Records[2].ID
		for name, otherCaller := range map[string]client{
			"another user":         notify.with("X-User-Id", "bob"),
			"another organization": h.service(stack.Notify, unique("org")),
		} {
			otherCaller.do(t, http.MethodPut, inboxPath+"/"+one+"/read", nil).refusedWith(t, http.StatusNotFound, "not found")
			otherCaller.do(t, http.MethodDelete, inboxPath+"/"+one, nil).refusedWith(t, http.StatusNotFound, "not found")
			if t.Failed() {
				t.Error(name)
			}
		}
		notify.with("X-User-Id", "ann").get(t, inboxPath+"?user_id=bob").refusedWith(t, http.StatusBadRequest, "user_id")
	})
	t.Run("read all", func(t *testing.T) {
		var all struct {
			Marked int `json:"marked"`
			Unread int `json:"unread_count"`
		}
		notify.do(t, http.MethodPut, inboxPath+"/read-all", object{"user_id": "ann"}).into(t, http.StatusOK, &all)
		if all.Marked != 1 || all.Unread != 0 {
			t.Errorf("marked %+v", all)
		}
		if bob := h.inbox(t, organization, "bob"); bob.Unread != 1 {
			t.Errorf("bob's inbox %+v", bob)
		}
	})
}

func TestNotificationIdempotency(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	send := h.customer(t, organization, "notifications", "write").with("Idempotency-Key", "k")
	id := func(a answer, status int) any { return a.fields(t, status, "notification_id")["notification_id"] }
	first := id(send.post(t, sendRoute, notificationTo("ann", "once")), http.StatusAccepted)
	if again := id(send.post(t, sendRoute, notificationTo("ann", "once")), http.StatusOK); again != first {
		t.Errorf("repeat %v, want %v", again, first)
	}
	inBody := send.with("Idempotency-Key", "").post(t, sendRoute, notificationTo("ann", "once", object{"idempotency_key": "k"}))
	if id(inBody, http.StatusOK) != first {
		t.Errorf("repeat with the key in the body: %s", inBody.body)
	}
	send.post(t, sendRoute, notificationTo("ann", "something else")).refusedWith(t, http.StatusUnprocessableEntity, "")
	if box := h.inbox(t, organization, "ann"); len(box.Records) != 1 || box.Unread != 1 {
		t.Errorf("inbox %+v, want one record", box)
	}
}

func TestNotifyRefuses(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	over := func(channels ...string) object { return notificationTo("ann", "m", object{"channels": channels}) }
	tests := map[string]struct {
		body   any
		status int
		text   string
	}{
		"web push while it is off": {over("web_push"), 400, "NOTIFY_WEB_PUSH_ENABLED"},
		"email without an address": {over("email"), 400, "email"},
		"webhook without a URL":    {over("webhook"), 400, "webhook"},
		"slack without a URL":      {over("slack"), 400, "slack"},
		"one channel of two":       {over("in_app", "web_push"), 400, "web_push"},
		"an unknown channel":       {over("pigeon"), 400, "channels"},
		"no channels":              {over(), 400, "channels"},
		"no message":               {notificationTo("ann", ""), 400, "message"},
		"an unknown field":         {notificationTo("ann", "m", object{"colour": "red"}), 400, "colour"},
		"a link that runs":         {notificationTo("ann", "m", object{"target": object{"url": "javascript:alert(1)"}}), 400, "url"},
		"another organization's":   {notificationTo("ann", "m", object{"organization_id": "org_other"}), 403, "organization_id"},
		"bad JSON":                 {`{"channels":`, 400, ""},
		"no JSON object":           {`null`, 400, ""},
		"a body of 2 MiB":          {notificationTo("ann", strings.Repeat("x", 2<<20)), 413, ""},
	}
	customer, service := h.customer(t, organization, "notifications", "write"), h.service(stack.Notify, organization)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			customer.post(t, sendRoute, tt.body).refusedWith(t, tt.status, tt.text)
			service.post(t, notifyPath, tt.body).refusedWith(t, tt.status, tt.text)
		})
	}
	if box := h.inbox(t, organization, "ann"); len(box.Records) != 0 || box.Unread != 0 {
		t.Errorf("inbox %+v, want no record of a refused notification", box)
	}
}

func TestPushWhileOff(t *testing.T) {
	t.Parallel()
	h := use(t)
	notify := h.service(stack.Notify, unique("org"))
	for _, call := range []struct{ method, path string }{
		{http.MethodGet, "/v1/push/vapid-public-key"},
		{http.MethodPost, "/v1/push/registrations"},
		{http.MethodGet, "/v1/push/registrations"},
		{http.MethodDelete, "/v1/push/registrations/x"},
		{http.MethodGet, "/v1/push/history"},
	} {
		notify.do(t, call.method, call.path, nil).refusedWith(t, http.StatusNotFound, "NOTIFY_WEB_PUSH_ENABLED")
	}
}

func TestNotificationOverGRPC(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	notify, inbox := notifyv1.NewNotifyServiceClient(h.grpc(t, stack.Notify)), notifyv1.NewInboxServiceClient(h.grpc(t, stack.Notify))
	sent, err := notify.Notify(h.as(t, organization), &notifyv1.NotifyRequest{
		Channels: []string{"in_app"}, Message: "hello", Target: &notifyv1.NotifyTarget{UserId: "ann"},
	})
	if err != nil || sent.GetNotificationId() == "" {
		t.Fatalf("sent %v, %v", sent, err)
	}
	page, err := inbox.ListNotifications(h.as(t, organization, "x-user-id", "ann"), &notifyv1.ListNotificationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.GetNotifications()) != 1 || page.GetUnreadCount() != 1 {
		t.Fatalf("%d records, %d unread, want 1 of each", len(page.GetNotifications()), page.GetUnreadCount())
	}
	if got := page.GetNotifications()[0].GetNotificationId(); got != sent.GetNotificationId() {
		t.Fatalf("record of send %s, want %s", got, sent.GetNotificationId())
	}
	id := page.GetNotifications()[0].GetId()
	if marked, err := inbox.MarkRead(h.as(t, organization), &notifyv1.MarkReadRequest{Id: id}); err != nil || marked.GetUnreadCount() != 0 {
		t.Errorf("marked %v, %v", marked, err)
	}
	log, err := notify.GetSend(h.as(t, organization), &notifyv1.GetSendRequest{NotificationId: sent.GetNotificationId()})
	if err != nil || log.GetStatus() != "delivered" || len(log.GetChannels()) != 1 {
		t.Errorf("log %v, %v", log, err)
	}
	if _, err := inbox.DeleteNotification(h.as(t, organization), &notifyv1.DeleteNotificationRequest{Id: id}); err != nil {
		t.Error(err)
	}
	_, err = inbox.DeleteNotification(h.as(t, organization), &notifyv1.DeleteNotificationRequest{Id: id})
	refusedBy(t, err, codes.NotFound, "not_found")
	_, err = notify.Notify(h.as(t, organization), &notifyv1.NotifyRequest{Channels: []string{"web_push"}, Message: "hello"})
	refusedBy(t, err, codes.InvalidArgument, "web_push_disabled")
	push := notifyv1.NewPushServiceClient(h.grpc(t, stack.Notify))
	_, err = push.GetVapidPublicKey(h.as(t, organization), &notifyv1.GetVapidPublicKeyRequest{})
	refusedBy(t, err, codes.NotFound, "web_push_disabled")
}
