//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// screenshot names the file of a picture of the demo page; empty for none.
var screenshot = flag.String("screenshot", "", "`file` for a picture of notify's demo page")

// browserTimeout bounds all that a test does in a browser, which may keep a processor busy for half a minute by itself.
const browserTimeout = 5 * time.Minute

// chrome starts a headless browser. A slow disk takes half a minute to read its program.
func chrome(t *testing.T) context.Context {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no chromium; .ci/run installs it")
		}
		t.Skip("there is no chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1000, 760),
		chromedp.WSURLReadTimeout(browserTimeout))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, browserTimeout)
	t.Cleanup(cancel)
	return ctx
}

// stubSubscribe replaces PushManager.subscribe, which can't reach a vendor's push service in a headless browser: it
// returns a subscription of the fake push service.
const stubSubscribe = `(() => {
	const made = %s;
	PushManager.prototype.subscribe = async (options) => {
		if (!options.userVisibleOnly || options.applicationServerKey !== %q) throw new Error("subscribed with something else");
		return { toJSON: () => made, unsubscribe: async () => true };
	};
	PushManager.prototype.getSubscription = async () => null;
})()`

func TestDemoPage(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	ctx := chrome(t)
	key := h.service(stack.Notify, stack.Organization).get(t, "/v1/push/vapid-public-key").fields(t, http.StatusOK, "public_key")
	subscribed := h.browser(t, stack.Organization)
	toJSON, err := json.Marshal(object{"endpoint": subscribed.Endpoint, "expirationTime": nil, "keys": subscribed.Keys})
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	chromedp.ListenTarget(ctx, func(event any) {
		if thrown, ok := event.(*runtime.EventExceptionThrown); ok {
			faults = append(faults, thrown.ExceptionDetails.Error())
		}
	})
	workers := make(chan *serviceworker.Version, 100)
	chromedp.ListenTarget(ctx, func(event any) {
		if updated, ok := event.(*serviceworker.EventWorkerVersionUpdated); ok {
			for _, v := range updated.Versions {
				workers <- v
			}
		}
	})
	run := func(actions ...chromedp.Action) {
		t.Helper()
		if err := chromedp.Run(ctx, actions...); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(id, want string) {
		t.Helper()
		run(chromedp.Poll(fmt.Sprintf("document.getElementById(%q).textContent.includes(%q)", id, want), nil, chromedp.WithPollingTimeout(waitTimeout)))
	}
	run(
		browser.GrantPermissions([]browser.PermissionType{browser.PermissionTypeNotifications}).WithOrigin(h.DemoURL()),
		serviceworker.Enable(),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(fmt.Sprintf(stubSubscribe, toJSON, key["public_key"])).Do(ctx)
			return err
		}),
		chromedp.Navigate(h.DemoURL()),
	)
	shows("live", "live")
	shows("device", "Not subscribed")

	t.Run("subscribe", func(t *testing.T) {
		run(chromedp.Click("#subscribe"))
		shows("device", "Subscribed at "+h.FakeURL(stack.FakePush))
	})
	t.Run("send and receive", func(t *testing.T) {
		run(chromedp.Click(`input[value="web_push"]`), chromedp.Click("#send button"))
		shows("sent", "Accepted as")
		shows("unread", "1")
		shows("feed", "Order 7: Your order was shipped.")
		waitFor(t, waitTimeout, "the push arrives", func() error {
			if n := len(h.pushed(t, subscribed)); n != 1 {
				return fmt.Errorf("%d pushes", n)
			}
			return nil
		})
		// The test delivers the message to the browser in place of the push service. The page's service worker shows the
		// notification and then reports it to the page.
		text := h.pushed(t, subscribed)[0].Plaintext
		registration := registrationOf(t, workers, h.DemoURL())
		run(serviceworker.DeliverPushMessage(h.DemoURL(), serviceworker.RegistrationID(registration), text))
		shows("received", "Order 7: Your order was shipped.")
		var shown []string // notifications that the browser shows outside the page
		run(chromedp.Evaluate(`navigator.serviceWorker.ready
			.then((worker) => worker.getNotifications())
			.then((all) => all.map((n) => n.title + ": " + n.body))`, &shown, awaitPromise))
		if len(shown) != 1 || shown[0] != "Order 7: Your order was shipped." {
			t.Errorf("the browser shows %q", shown)
		}
	})
	t.Run("the count is live", func(t *testing.T) {
		h.service(stack.Notify, stack.Organization).post(t, notifyPath, notificationTo("demo", "from elsewhere <b>not bold</b>")).want(t, http.StatusAccepted)
		shows("unread", "2")
		shows("feed", "from elsewhere <b>not bold</b>")
		if *screenshot != "" {
			var png []byte
			run(chromedp.FullScreenshot(&png, 100))
			if err := os.WriteFile(*screenshot, png, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run(chromedp.Click("#feed li button"))
		shows("unread", "1")
		run(chromedp.Click("#read-all"))
		shows("unread", "0")
		run(chromedp.Click("#feed li button:last-child"), chromedp.Poll(`document.querySelectorAll("#feed li").length === 1`, nil))
	})
	t.Run("unsubscribe", func(t *testing.T) {
		run(chromedp.Click("#unsubscribe"))
		shows("device", "Not subscribed")
		if left := h.devices(t, stack.Organization, "?user_id=demo"); len(left) != 0 {
			t.Errorf("devices %+v", left)
		}
	})
	t.Run("without a vendor", func(t *testing.T) {
		subscribed := func() {
			t.Helper()
			shows("device", "Subscribed at "+h.FakeURL(stack.FakePush))
			if devices := h.devices(t, stack.Organization, "?user_id=demo"); len(devices) != 1 {
				t.Errorf("devices %+v, want one", devices)
			}
		}
		run(chromedp.Click("#subscribe-fake"))
		subscribed()
		run(chromedp.SetValue(`input[name="subject"]`, "Order 8"), chromedp.Click("#send button"))
		shows("received", "Order 8: Your order was shipped.")
		// A page that is opened again has another subscription in place of the former one.
		run(chromedp.Reload())
		subscribed()
		run(chromedp.Click(`input[value="web_push"]`), chromedp.SetValue(`input[name="subject"]`, "Order 9"), chromedp.Click("#send button"))
		shows("received", "Order 9: Your order was shipped.")
		run(chromedp.Click("#unsubscribe"))
		shows("device", "Not subscribed")
		if left := h.devices(t, stack.Organization, "?user_id=demo"); len(left) != 0 {
			t.Errorf("devices %+v", left)
		}
	})
	if len(faults) > 0 {
		t.Errorf("the page threw %q", faults)
	}
}

// awaitPromise makes an evaluation wait for the promise of its expression.
func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// registrationOf waits until the page's service worker is activated, and returns its registration id.
func registrationOf(t *testing.T, workers <-chan *serviceworker.Version, origin string) string {
	t.Helper()
	deadline := time.After(waitTimeout)
	for {
		select {
		case v := <-workers:
			if v.Status == serviceworker.VersionStatusActivated && strings.HasPrefix(v.ScriptURL, origin) {
				return v.RegistrationID.String()
			}
		case <-deadline:
			t.Fatal("no service worker runs")
		}
	}
}

// Only the demo's own pages on this machine can use it.
func TestDemoPageIsGuarded(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	demo := client{base: h.DemoURL(), header: http.Header{}}
	head := demo.get(t, "/").want(t, http.StatusOK).header
	if policy := head.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	demo.with("Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").post(t, notifyPath, notificationTo("demo", "m")).want(t, http.StatusForbidden)
	if a := statusWithHost(t, demo, "evil.example"); a != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d", a)
	}
	demo.get(t, "/nope").want(t, http.StatusNotFound)
	demo.with("X-User-Id", "ann", "X-Organization-Id", "org-other").get(t, inboxPath).want(t, http.StatusOK) // the demo ignores the headers and uses its own user
}

func statusWithHost(t *testing.T, c client, host string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
