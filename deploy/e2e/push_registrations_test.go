//go:build e2e

package e2e_test

import (
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"

	"switchyard.dev/deploy/dev/stack"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
)

type registration struct {
	ID        string  `json:"sub_id"`
	User      *string `json:"user_id"`
	Status    string  `json:"status"`
	Delivered *string `json:"last_delivered_at"`
}

func (h *harness) devices(t *testing.T, organization, query string) []registration {
	t.Helper()
	var page struct {
		All []registration `json:"registrations"`
	}
	h.service(stack.Notify, organization).get(t, registrationsPath+query).into(t, http.StatusOK, &page)
	return page.All
}

func TestPushRegistrationsOverTheWire(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	notify := h.service(stack.Notify, organization)
	b := h.browser(t, organization)
	id := h.register(t, organization, b, object{"user_id": "ann"})
	if again := h.register(t, organization, b, object{"user_id": "bob"}); again != id {
		t.Errorf("the same browser is %s and %s", id, again)
	}
	body := object{"subscription": object{"endpoint": b.Endpoint, "keys": b.Keys}}
	for name, refusal := range map[string]struct {
		client client
		body   any
		status int
		text   string
	}{
		"fcm":                  {notify, body.with(object{"platform": "fcm"}), 400, "platform_reserved"},
		"a private address":    {notify, object{"subscription": object{"endpoint": "https://169.254.169.254/x.apple.com/", "keys": b.Keys}}, 400, "endpoint"},
		"another loopback":     {notify, object{"subscription": object{"endpoint": "http://127.0.0.1:1/x", "keys": b.Keys}}, 400, "endpoint"},
		"no keys":              {notify, object{"subscription": object{"endpoint": b.Endpoint, "keys": object{"x": "y"}}}, 400, "keys.p256dh"},
		"another organization": {notify, body.with(object{"organization_id": "org-other"}), 403, "organization_id"},
		"support":              {notify.bearer(h.Secrets().Support), body, 403, "role"},
		"nobody":               {h.anonymous(stack.Notify), body, 401, "token"},
	} {
		refusal.client.post(t, registrationsPath, refusal.body).refusedWith(t, refusal.status, refusal.text)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	h.service(stack.Notify, unique("org")).do(t, http.MethodDelete, registrationsPath+"/"+id, nil).refusedWith(t, http.StatusNotFound, "not found")
	notify.with("X-User-Id", "ann").do(t, http.MethodDelete, registrationsPath+"/"+id, nil).refusedWith(t, http.StatusNotFound, "not found")
	notify.do(t, http.MethodDelete, registrationsPath+"/"+id, nil).want(t, http.StatusNoContent)
	notify.do(t, http.MethodDelete, registrationsPath+"/"+id, nil).refusedWith(t, http.StatusNotFound, "not found")
	notify.get(t, "/v1/push/nope").refusedWith(t, http.StatusNotFound, "not found")
	notify.do(t, http.MethodPut, historyPath, nil).refusedWith(t, http.StatusMethodNotAllowed, "not allowed")

	push := notifyv1.NewPushServiceClient(h.grpc(t, stack.Notify))
	made, err := push.RegisterPush(h.as(t, organization), &notifyv1.PushSubscriptionRegister{
		Subscription: &notifyv1.PushSubscription{Endpoint: b.Endpoint, Keys: b.Keys},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := push.DeletePushRegistration(h.as(t, organization), &notifyv1.DeletePushRegistrationRequest{SubId: made.GetSubId()}); err != nil {
		t.Error(err)
	}
	_, err = push.DeletePushRegistration(h.as(t, organization), &notifyv1.DeletePushRegistrationRequest{SubId: made.GetSubId()})
	refusedBy(t, err, codes.NotFound, "not_found")
}
