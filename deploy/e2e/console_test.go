//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// consolePicture names the files of the pictures of the operators' page (light, dark, and on a narrow screen); empty
// for none.
var consolePicture = flag.String("console-picture", "", "`file` for pictures of the gateway's console")

// refreshEarly has a page refresh itself just before it gets the answer that says what its token may do.
const refreshEarly = `(() => {
	const ask = window.fetch;
	window.fetch = async (path, options) => {
		const answer = await ask(path, options);
		if (path.endsWith("/v1/admin/pin-status")) document.dispatchEvent(new Event("visibilitychange"));
		return answer;
	};
})()`

// The operators' page shows the gateway's state, changes nothing without an operator's token, and changes the routing
// with one.
func TestConsole(t *testing.T) {
	t.Parallel()
	h := pairOfGateways(t)
	organization := unique("org")
	own, operator := h.service(stack.Gateway, organization), h.operator(stack.Gateway)
	for i := range 6 {
		own.post(t, chatPath, ask("sandbox", fmt.Sprintf("question %d of ada@example.com <img src=x onerror=alert(1)>", i))).want(t, http.StatusOK)
	}
	own.post(t, chatPath, object{"model": "nobody-has-this", "messages": []object{{"role": "user", "content": "hello"}}})
	operator.do(t, http.MethodPut, "/v1/admin/orgs/"+organization+"/budget", object{"budget_ceiling_cents": 1, "period": "day"}).want(t, http.StatusOK)
	waitFor(t, waitTimeout, "traces", func() error {
		if traces, _ := own.get(t, "/v1/traces").fields(t, http.StatusOK, "traces")["traces"].([]any); len(traces) < 7 {
			return fmt.Errorf("%d traces", len(traces))
		}
		return nil
	})
	ctx := chrome(t)
	var faults []string
	chromedp.ListenTarget(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			faults = append(faults, event.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if strings.Contains(event.Entry.Text, "Security Policy") {
				faults = append(faults, event.Entry.Text)
			}
		}
	})
	run := func(actions ...chromedp.Action) {
		t.Helper()
		if err := chromedp.Run(ctx, actions...); err != nil {
			t.Fatal(errors.Join(err, fmt.Errorf("faults of the page: %v", faults)))
		}
	}
	until := func(condition string) {
		t.Helper()
		if err := chromedp.Run(ctx, chromedp.Poll(condition, nil, chromedp.WithPollingTimeout(waitTimeout))); err != nil {
			var shown string
			run(chromedp.Evaluate("document.body.innerText", &shown))
			t.Fatalf("%s\nfaults of the page: %v\n%v: %s", shown, faults, err, condition)
		}
	}
	give := func(token string) {
		t.Helper()
		run(chromedp.SendKeys("#token", token+"\r"))
	}
	text := func(id, want string) string {
		return fmt.Sprintf("document.getElementById(%q).textContent.includes(%q)", id, want)
	}
	const locked = `[...document.querySelectorAll("#routing button")].every((b) => b.disabled)`

	// Without a token the page shows public data, and all its buttons are disabled.
	run(chromedp.EmulateViewport(1360, 1120), chromedp.Navigate(h.URL(string(stack.Gateway))+"/console"))
	until(text("verdict", "ready") + " && " + locked)
	until(`document.getElementById("leaving").children.length > 0`)

	// A token that the gateway doesn't know, and one that may only read.
	give("wrong")
	until(text("role", "not accepted") + " && " + locked)
	give(h.Secrets().Service)
	until(text("role", "read only") + ` && document.querySelector("[data-provider=sandbox]") !== null && ` + locked)
	until(text("routing-note", "Read only"))
	until(`document.querySelectorAll("#providers tr[data-provider]").length === 12 && ` + text("providers", "only when a request names it"))
	// The page shows its tables anew every few seconds: what is clicked is found in the same step, not before.
	click := func(selector string) {
		t.Helper()
		until(fmt.Sprintf(`(() => { const found = document.querySelector(%q); found?.click(); return found !== null; })()`, selector))
	}
	click("#more-providers")
	until(`document.querySelectorAll("#providers tr[data-provider]").length > 12`)
	click("#more-providers")
	until(`document.querySelectorAll("#providers tr[data-provider]").length === 12`)

	// An operator's token.
	give(h.Secrets().Operator)
	until(text("role", "operator") + " && " + text("policy-detail", "Version") + " && !(" + locked + ")")
	run(chromedp.SetValue("#pin select[name=provider]", "sandbox"), chromedp.SendKeys("#pin input[name=reason]", "a look at it"))
	click("#pin button[type=submit]")
	until(text("pin-state", "sandbox") + " && " + text("outcome", "Pinned"))
	if pin := operator.get(t, "/v1/admin/pin-status").fields(t, http.StatusOK, "provider"); pin["pinned"] != true || pin["reason"] != "a look at it" {
		t.Errorf("pin status %v", pin)
	}
	click(`#pin button[data-act=unpin]`)
	until(text("pin-state", "none"))
	run(chromedp.SetValue("#canary select[name=provider]", "sandbox"))
	click("#canary button[type=submit]")
	until(text("canary-state", "5 %"))

	// Requests and spend of an organization; the page renders user input as text, never as HTML.
	run(chromedp.SendKeys("#org", organization+"\r"))
	until(`document.querySelectorAll("#traces tr.open-able").length === 7 && ` + text("spend", "$"))
	// With the keyboard: the details of a request open, and a refresh takes neither them nor the focus away.
	until(`(() => { const found = document.querySelector("#traces tr.open-able:nth-child(3) button"); found?.focus(); return found !== null && document.activeElement === found; })()`)
	run(chromedp.KeyEvent("\r"))
	until(text("traces", "of [email] <img src=x onerror=alert(1)>"))
	var looked int
	run(chromedp.Evaluate("Number(document.body.dataset.looked)", &looked))
	until(fmt.Sprintf(`Number(document.body.dataset.looked) > %d && document.activeElement.getAttribute("aria-expanded") === "true"`, looked+1))
	until(`document.querySelectorAll("img").length === 0`)
	checkAccessible(t, ctx, "the gateway's page with a request")

	if *consolePicture != "" {
		for _, view := range []struct {
			suffix, scheme string
			width          int64
		}{{"", "light", 1360}, {"-dark", "dark", 1360}, {"-narrow", "light", 390}} {
			var picture []byte
			run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: view.scheme}}),
				chromedp.EmulateViewport(view.width, 1120), chromedp.FullScreenshot(&picture, 100))
			if err := os.WriteFile(strings.TrimSuffix(*consolePicture, ".png")+view.suffix+".png", picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The token is stored for the tab and nowhere else, and a new page goes on with it. A refresh that began before the page
	// knew the token's rights enables no button: it has not read the versions that a change names.
	run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(refreshEarly).Do(ctx)
		return err
	}))
	if _, err := chromedp.RunResponse(ctx, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	until(text("role", "operator") + " && !(" + locked + ")")
	var kept string
	run(chromedp.Evaluate(`document.documentElement.outerHTML + JSON.stringify({...localStorage}) + document.cookie + document.getElementById("token").value + location.href`, &kept))
	for _, token := range []string{h.Secrets().Operator, h.Secrets().Service} {
		if strings.Contains(kept, token) {
			t.Error("a token is kept in the page")
		}
	}
	click(`#canary button[data-act=canary-stop]`)
	until(text("outcome", "The canary is stopped") + " && " + text("canary-state", "none"))

	if _, err := chromedp.RunResponse(ctx, chromedp.Click("#sign-out")); err != nil {
		t.Fatal(err)
	}
	until(text("verdict", "ready") + " && " + locked + ` && sessionStorage.length === 0 && document.getElementById("sign-out").hidden`)
	if len(faults) > 0 {
		t.Errorf("the page failed: %v", faults)
	}
}
