//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"switchyard.dev/deploy/dev/stack"
)

// violation is a rule of axe-core that a page breaks (github.com/dequelabs/axe-core/blob/develop/doc/API.md).
type violation struct {
	ID    string
	Help  string
	Nodes []struct {
		HTML    string
		Summary string `json:"failureSummary"`
	}
}

// auditAxe has axe-core check the page by the rules of WCAG 2.2, levels A and AA, and by some of its best practices.
const auditAxe = `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"],
	rules: Object.fromEntries(["landmark-one-main", "landmark-unique", "empty-table-header"].map((id) => [id, {enabled: true}]))})
	.then((results) => JSON.stringify(results.violations))`

// schemeStyles are the properties that the styles of a colour scheme set, other than variables.
const schemeStyles = `[...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
	.filter((rule) => rule instanceof CSSMediaRule && rule.conditionText.includes("prefers-color-scheme"))
	.flatMap((media) => [...media.cssRules]).flatMap((rule) => [...rule.style]).filter((name) => !name.startsWith("--"))`

// views are the ways in which each page is checked: features of media, as pairs of name and value, and a width. A colour
// scheme only sets variables, see [schemeStyles], so one width is enough for each.
var views = []struct {
	name     string
	features []string
	width    int64
}{
	{"light", []string{colorScheme, "light"}, 1280},
	{"dark phone", []string{colorScheme, "dark", "prefers-reduced-motion", "reduce"}, 360},
	{"forced colours", []string{colorScheme, "dark", "forced-colors", "active"}, 1280},
}

const colorScheme = "prefers-color-scheme"

// checkAccessible checks the page that a browser shows, in all views. At none of their widths it may scroll sideways.
func checkAccessible(t *testing.T, ctx context.Context, page string) { //nolint:revive // The browser is the second argument of all helpers.
	t.Helper()
	axe, err := os.ReadFile(clients(t).file(t, "axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	var styles []string
	if err := chromedp.Run(ctx, chromedp.Evaluate(schemeStyles, &styles)); err != nil {
		t.Fatal(err)
	}
	if len(styles) > 0 {
		t.Errorf("%s: a colour scheme sets %q, want variables only", page, styles)
	}
	for _, view := range views {
		var found string
		var width int64
		var features []*emulation.MediaFeature
		for i := 0; i < len(view.features); i += 2 {
			features = append(features, &emulation.MediaFeature{Name: view.features[i], Value: view.features[i+1]})
		}
		err := chromedp.Run(ctx,
			emulation.SetEmulatedMedia().WithFeatures(features),
			chromedp.EmulateViewport(view.width, 900),
			chromedp.Evaluate(string(axe), nil),
			chromedp.Evaluate(auditAxe, &found, awaitPromise),
			chromedp.Evaluate("document.documentElement.scrollWidth", &width),
		)
		if err != nil {
			t.Fatalf("%s, %s: %v", page, view.name, err)
		}
		if width > view.width {
			t.Errorf("%s, %s: the page is %d pixels wide, want %d at most", page, view.name, width, view.width)
		}
		var violations []violation
		if err := json.Unmarshal([]byte(found), &violations); err != nil {
			t.Fatal(err)
		}
		for _, v := range violations {
			t.Errorf("%s, %s: %s: %s: %d times, such as %s: %s", page, view.name, v.ID, v.Help, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].Summary)
		}
	}
	if err := chromedp.Run(ctx, emulation.SetEmulatedMedia(), chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatal(err)
	}
}

// faultsOf collects the exceptions of pages, and what their policy has blocked.
func faultsOf(ctx context.Context) *[]string {
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
	return &faults
}

// The services' pages of documents can be used by all, too.
func TestPagesOfServices(t *testing.T) {
	t.Parallel()
	h := use(t)
	clients(t)
	for _, service := range []stack.Service{stack.Gateway, stack.WebhookEgress, stack.Notify} {
		ctx := chrome(t)
		if err := chromedp.Run(ctx, chromedp.Navigate(h.URL(string(service))+"/docs")); err != nil {
			t.Fatal(err)
		}
		checkAccessible(t, ctx, string(service)+": /docs")
	}
}

// The page of documents can be used by all, and loads nothing that its policy forbids.
func TestPageOfDocuments(t *testing.T) {
	t.Parallel()
	h := use(t)
	clients(t)
	ctx := chrome(t)
	faults := faultsOf(ctx)
	var routes int
	err := chromedp.Run(ctx, chromedp.Navigate(h.URL(string(stack.Edge))+"/docs"),
		chromedp.Evaluate(`document.querySelectorAll("main article").length`, &routes))
	if err != nil {
		t.Fatal(errors.Join(err, fmt.Errorf("faults of the page: %v", *faults)))
	}
	if routes < 50 {
		t.Errorf("%d routes", routes)
	}
	checkAccessible(t, ctx, "/docs")
	if len(*faults) > 0 {
		t.Errorf("the page failed: %v", *faults)
	}
	checkSearch(t, h.URL(string(stack.Edge))+"/docs", routes)
}

// checkSearch checks that the field of the page of documents shows only the routes that have all its words, at the top of the
// page at each width.
func checkSearch(t *testing.T, page string, routes int) {
	t.Helper()
	ctx := chrome(t)
	faults := faultsOf(ctx)
	var found, all []string
	var wide, narrow float64
	var link string
	const shown = `[...document.querySelectorAll("main article:not([hidden]) :is(h3, h4)")].map((h) => h.textContent.trim())`
	const place = `document.querySelector("main article:not([hidden])").getBoundingClientRect().top`
	const more = `document.getElementById("search-documents").href`
	const emptied = `(() => { const field = document.getElementById("search"); field.value = ""; field.dispatchEvent(new Event("input")); })()`
	err := chromedp.Run(ctx, chromedp.Navigate(page),
		chromedp.SendKeys("#search", "tokens/revoke REFUSE", chromedp.ByQuery), chromedp.Evaluate(shown, &found),
		chromedp.EmulateViewport(1280, 900), chromedp.Evaluate(place, &wide), chromedp.EmulateViewport(360, 900), chromedp.Evaluate(place, &narrow),
		chromedp.Evaluate(more, &link), chromedp.Evaluate(emptied, nil), chromedp.Evaluate(shown, &all))
	if err != nil {
		t.Fatal(errors.Join(err, fmt.Errorf("faults of the page: %v", *faults)))
	}
	if len(found) == 0 || len(found) > 2 || !slices.Contains(found, "POST /product/v1/tokens/revoke") {
		t.Errorf("found %q, want the route that revokes tokens", found)
	}
	if wide > 900 || narrow > 900 || wide <= 0 || narrow <= 0 {
		t.Errorf("the first route is at %v and %v pixels, want it in sight", wide, narrow)
	}
	if want := page + "/search.html?q=tokens%2Frevoke+REFUSE"; link != want {
		t.Errorf("the search of all documents is at %s, want %s", link, want)
	}
	if len(all) != routes {
		t.Errorf("%d entries after the search, want %d", len(all), routes)
	}
	if len(*faults) > 0 {
		t.Errorf("the page failed: %v", *faults)
	}
}
