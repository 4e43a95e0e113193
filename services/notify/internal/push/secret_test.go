package push

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/webpush/webpushtest"
)

// Only a device that its user registered gets the secret of a message to that user. Other devices get links without the
// secret, and no data that contains the placeholder.
func TestSecretReachesTheUsersOwnDevices(t *testing.T) {
	const secret, bare = "canary-secret-0123456789", `"url":"https://shop.example/x/"`
	for name, tt := range map[string]struct {
		byUser, oneOff bool
		// user is the device's user; "" for ann. change changes the stored work.
		user   string
		change func(work []byte) []byte
		target channel.Target
		has    bool
	}{
		"registered by the user": {byUser: true, target: channel.Target{User: "ann"}, has: true},
		"registered by a key":    {target: channel.Target{User: "ann"}},
		"a broadcast":            {byUser: true, target: channel.Target{Broadcast: true}},
		"a broadcast to bob":     {byUser: true, user: "bob", target: channel.Target{Broadcast: true}},
		"a device of the caller": {oneOff: true},
		"work of an earlier release, which may be another user's": {
			byUser: true, target: channel.Target{User: "ann"}, user: "bob",
			change: func(work []byte) []byte { return bytes.Replace(work, []byte(`"user":"ann",`), nil, 1) },
		},
	} {
		w := newWorld(t)
		w.device.ByUser, w.device.User = tt.byUser, cmp.Or(tt.user, "ann")
		if tt.oneOff {
			tt.target.Subscription = &channel.Subscription{
				Endpoint: "https://fcm.googleapis.com/fcm/send/one-off", Keys: webpushtest.BrowserKeys(t, []byte("auth-of-16-bytes")),
			}
		}
		tt.target.URL, tt.target.Data = "https://shop.example/x/{secret}", []byte(`{"at":"{secret}"}`)
		work, err := w.sender.Prepare(t.Context(), channel.Message{
			Organization: "acme", Text: "hello", Target: tt.target, Secret: secret,
			Actions: []inbox.Action{{ID: "open", Label: "Open", URL: "https://shop.example/x/{secret}"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if tt.change != nil {
			work.Body = tt.change(work.Body)
		}
		task := channel.Task{Channel: channel.WebPush, Notification: uuid.New(), Work: work.Body, Number: 1}
		if !tt.oneOff {
			task.Subscription = &w.device.ID
		}
		if o := w.transport.Deliver(t.Context(), task); o.Kind != channel.OK {
			t.Fatalf("%s: %+v", name, o)
		}
		text := w.texts[0]
		if bytes.Contains(text, []byte(secret)) != tt.has || bytes.Contains(text, []byte(bare)) == tt.has || bytes.Contains(text, []byte("data")) != tt.has {
			t.Errorf("%s gets %s", name, text)
		}
	}
}
