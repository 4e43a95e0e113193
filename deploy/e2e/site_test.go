//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"golang.org/x/net/html"

	"switchyard.dev/deploy/dev/stack"
)

const (
	// siteHome is the path of the first page of the site of documents.
	siteHome = "/docs/"
	// sitePages and siteMost are the least and the most files that a walk of the site finds.
	sitePages, siteMost = 100, 500
)

// Every page that the first page of documents leads to is there, with everything that it links to and loads.
func TestSiteHasNoDeadLink(t *testing.T) {
	t.Parallel()
	open := use(t).anonymous(stack.Edge)
	seen, waiting := map[string]bool{siteHome: true}, []string{siteHome}
	anchors := make(map[string]map[string]bool)
	var links [][2]string // page and link to an anchor
	for len(waiting) > 0 && len(seen) < siteMost {
		at := waiting[0]
		waiting = waiting[1:]
		a := open.get(t, at).want(t, http.StatusOK)
		if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") {
			continue
		}
		page, err := html.Parse(bytes.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		anchors[at] = make(map[string]bool)
		for n := range page.Descendants() {
			for _, attribute := range n.Attr {
				switch attribute.Key {
				case "id":
					anchors[at][attribute.Val] = true
				case "href", "src", "action":
					to := linkFrom(t, at, attribute.Val)
					if to == nil {
						continue
					}
					links = append(links, [2]string{at, to.Path + "#" + to.Fragment})
					if strings.HasPrefix(to.Path, siteHome) && !seen[to.Path] {
						seen[to.Path] = true
						waiting = append(waiting, to.Path)
					}
				}
			}
		}
	}
	if len(seen) < sitePages || len(seen) >= siteMost {
		t.Errorf("%d files", len(seen))
	}
	for _, link := range links {
		path, fragment, _ := strings.Cut(link[1], "#")
		if fragment != "" && strings.HasPrefix(path, siteHome) && !anchors[path][fragment] {
			t.Errorf("%s: the link to %s has no anchor there", link[0], link[1])
		}
	}
	open.get(t, siteHome+"../docs").want(t, http.StatusNotFound) // Only browsers shorten paths.
	open.get(t, "/docs").want(t, http.StatusOK)
}

// linkFrom returns where a link of a page leads to; nil for another host.
func linkFrom(t *testing.T, page, link string) *url.URL {
	t.Helper()
	base, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	to, err := base.Parse(link)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if to.Host != "" {
		return nil
	}
	return to
}

// Each kind of page can be used by all, at the width of a phone, too, and loads nothing that its policy forbids.
func TestSiteIsAccessible(t *testing.T) {
	t.Parallel()
	h := use(t)
	clients(t)
	for name, at := range map[string]string{
		"first page": "index.html", "code": "recipes/webhook-egress.html", "wide tables": "edge/index.html", "search": "search.html?q=retry",
		"text": "decisions/index.html",
	} {
		ctx := chrome(t)
		faults := faultsOf(ctx)
		if err := chromedp.Run(ctx, chromedp.Navigate(h.URL(string(stack.Edge))+siteHome+at)); err != nil {
			t.Fatal(errors.Join(err, fmt.Errorf("faults of the page: %v", *faults)))
		}
		checkAccessible(t, ctx, name)
		if len(*faults) > 0 {
			t.Errorf("%s failed: %v", name, *faults)
		}
	}
}

// A reader types words on any page, and the first result leads to the section that has them. A block of code is copied.
func TestSiteSearches(t *testing.T) {
	t.Parallel()
	h := use(t)
	ctx := chrome(t)
	faults := faultsOf(ctx)
	base := h.URL(string(stack.Edge)) + siteHome
	var title, found, some, best, at, section, copied, spoken string
	var marks, none int
	err := chromedp.Run(ctx,
		chromedp.Navigate(base+"gateway/providers.html"),
		chromedp.Evaluate(`[...document.querySelectorAll("pre + button")].map((b) => b.textContent)[0]`, &copied),
		chromedp.Click("pre + button", chromedp.ByQuery),
		chromedp.Poll(`document.querySelector(".spoken").textContent`, &spoken, chromedp.WithPollingTimeout(waitTimeout)),
		chromedp.SendKeys("#words", "KEY_PEPPER hashing"+kb.Enter, chromedp.ByQuery),
		chromedp.WaitVisible("#results a", chromedp.ByQuery),
		chromedp.Text("#found", &found, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelectorAll("#results mark").length`, &marks),
		chromedp.Text("#results a", &title, chromedp.ByQuery),
		chromedp.Click("#results a", chromedp.ByQuery),
		chromedp.WaitVisible("#settings", chromedp.ByQuery),
		chromedp.Location(&at),
		chromedp.Text(":target", &section, chromedp.ByQuery),
		chromedp.Navigate(base+"search.html?q=no-such-word+pepper+hashing"),
		chromedp.WaitVisible("#results a", chromedp.ByQuery),
		chromedp.Text("#found", &some, chromedp.ByQuery),
		chromedp.Text("#results a", &best, chromedp.ByQuery),
		chromedp.Navigate(base+"search.html?q=%3Cimg%20src%3Dx%20onerror%3D1%3E"),
		chromedp.WaitVisible("#found", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelectorAll("main img").length`, &none),
	)
	if err != nil {
		t.Fatal(errors.Join(err, fmt.Errorf("faults of the page: %v", *faults)))
	}
	if !strings.HasPrefix(some, "0 found with all words, ") || !strings.Contains(some, "with some of them") || best != title {
		t.Errorf("the search for a word that is nowhere says %q, and finds %q first", some, best)
	}
	if !strings.Contains(spoken, "opied") { // A browser without a window may forbid it.
		t.Errorf("the button says %q", spoken)
	}
	if !strings.Contains(found, "found with all words") || marks < 2 || copied != "Copy" || none != 0 {
		t.Errorf("%q, %d marks, the button %q, %d images", found, marks, copied, none)
	}
	if title != "The edge: Settings" || at != base+"edge/index.html#settings" || section != "Settings" {
		t.Errorf("the first result %q leads to %q of %s", title, section, at)
	}
	if len(*faults) > 0 {
		t.Errorf("the pages failed: %v", *faults)
	}
}

// Without scripts, and by the keyboard alone, a reader comes to every document.
func TestSiteWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	h := use(t)
	ctx := chrome(t)
	base := h.URL(string(stack.Edge)) + siteHome
	var first, text, results string
	err := chromedp.Run(ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(base))
	if err == nil {
		err = followSkipLink(ctx)
	}
	if err == nil {
		err = chromedp.Run(ctx, chromedp.Location(&first),
			chromedp.Text("main", &text, chromedp.ByQuery),
			chromedp.SendKeys("#words", "retry"+kb.Enter, chromedp.ByQuery),
			chromedp.WaitVisible("#found", chromedp.ByQuery),
			chromedp.Text("#found", &results, chromedp.ByQuery))
	}
	if err != nil {
		t.Fatal(err)
	}
	if first != base+"#main" {
		t.Errorf("the first link leads to %s", first)
	}
	if !strings.Contains(text, "Provider cookbook") || !strings.Contains(text, "0042") {
		t.Errorf("the first page lacks documents: %.300s", text)
	}
	if !strings.Contains(results, "All documents") {
		t.Errorf("the search without a script says %q", results)
	}
}

// followSkipLink goes to the first link of the page by the keyboard, and follows it.
func followSkipLink(ctx context.Context) error {
	press := func(key, code string, number int64, text string) chromedp.Action {
		return chromedp.ActionFunc(func(ctx context.Context) error {
			down := input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithCode(code).WithWindowsVirtualKeyCode(number).WithText(text)
			return errors.Join(down.Do(ctx), input.DispatchKeyEvent(input.KeyUp).WithKey(key).WithCode(code).WithWindowsVirtualKeyCode(number).Do(ctx))
		})
	}
	return chromedp.Run(ctx, press("Tab", "Tab", 9, ""), press("Enter", "Enter", 13, "\r"))
}
