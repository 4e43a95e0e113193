//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// A person registers a browser in the portal, sees it listed, and removes it; an operator sees it among those of all
// organizations.
func TestPortalDevices(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	key := h.service(stack.Notify, organization).get(t, "/v1/push/vapid-public-key").fields(t, http.StatusOK, "public_key")
	subscribed := h.browser(t, organization)
	toJSON, err := json.Marshal(object{"endpoint": subscribed.Endpoint, "expirationTime": nil, "keys": subscribed.Keys})
	if err != nil {
		t.Fatal(err)
	}
	ctx := chrome(t)
	p := browserPage{ctx, faultsOf(ctx)}
	p.run(t,
		browser.GrantPermissions([]browser.PermissionType{browser.PermissionTypeNotifications}).WithOrigin(h.URL(string(stack.Edge))),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(fmt.Sprintf(stubSubscribe, toJSON, key["public_key"])).Do(ctx)
			return err
		}),
		chromedp.Navigate(h.portalLink(t, organization, "", "ann", "notifications:push:read", "notifications:push:write")),
	)
	p.until(t, contains("title", "Push devices")+` && document.getElementById("content").dataset.ready === "true"`)
	p.run(t, chromedp.Click("#register"))
	p.until(t, contains("devices", h.FakeURL(stack.FakePush))+" && "+contains("status", "registered"))
	checkAccessible(t, p.ctx, "devices")
	all := h.operator(stack.Notify).get(t, "/v1/push/registrations?all_organizations=true&limit=200").want(t, http.StatusOK)
	var listed struct {
		Registrations []struct {
			Organization string `json:"organization_id"`
			User         string `json:"user_id"`
		}
	}
	all.into(t, http.StatusOK, &listed)
	found := 0
	for _, r := range listed.Registrations {
		if r.Organization == organization && r.User == "ann" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d of the devices of all organizations are ann's, want 1", found)
	}
	h.service(stack.Notify, "").get(t, "/v1/push/registrations?all_organizations=true").refusedWith(t, http.StatusForbidden, "all_organizations")
	p.run(t, chromedp.Click("#devices tbody button"))
	p.until(t, contains("status", "Deleted")+` && document.querySelector("#devices table") === null`)
	if len(*p.faults) > 0 {
		t.Errorf("the page failed: %v", *p.faults)
	}
}
