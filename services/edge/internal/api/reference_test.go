package api_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/route"
)

// shownRoute is what the page of documents says of a route.
type shownRoute struct{ Heading, Products, Scope, Metric string }

// The page has exactly the routes of the table, in its words, and a recipe for each.
func TestPageOfDocuments(t *testing.T) {
	x := newWorld(t)
	w := x.do(t, "GET", "/docs", "", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'"
	if got := w.Header().Get("Content-Security-Policy"); got != policy {
		t.Errorf("policy %q, want %q", got, policy)
	}
	icon := x.do(t, "GET", "/docs.svg", "", "")
	if icon.Code != 200 || icon.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(icon.Body.String(), "<svg") {
		t.Errorf("the icon: %d %v", icon.Code, icon.Header())
	}
	root, err := html.Parse(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []shownRoute
	for _, r := range table.Routes {
		scope := string(r.Scope)
		if r.Permission != "" {
			scope += " or " + string(r.Permission)
		}
		want = append(want, shownRoute{r.Method + " " + r.Path, strings.Join(r.Products, ", "), scope, r.Metric})
	}
	for article := range elements(root, "article") {
		if first(article, "h4") == nil { // an event, or an operation of the edge itself
			continue
		}
		said := make(map[string]string)
		for div := range elements(article, "div") {
			said[textOf(first(div, "dt"))] = textOf(first(div, "dd"))
		}
		route := shownRoute{textOf(first(article, "h4")), said["Products"], said["Scope"], said["Counts as"]}
		if recipe := textOf(first(article, "pre")); !strings.Contains(recipe, "curl") {
			t.Errorf("%s: no recipe", route.Heading)
		}
		got = append(got, route)
	}
	byHeading := func(a, b shownRoute) int { return strings.Compare(a.Heading, b.Heading) }
	slices.SortFunc(want, byHeading)
	slices.SortFunc(got, byHeading)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	checkPage(t, root)
	if found := regexp.MustCompile(`matches [^<]{0,80}`).FindString(textOf(root)); found != "" {
		t.Errorf("a rule is a regular expression and no words: %s", found)
	}
}

// checkPage checks what holds for any page: anchors that exist once, headings that skip no level, and no active content.
func checkPage(t *testing.T, root *html.Node) {
	t.Helper()
	ids := make(map[string]bool)
	level := byte('0')
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("the id %s is there twice", id)
			}
			ids[id] = true
		}
		if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
			if n.Data[1] > level+1 {
				t.Errorf("heading %q skips a level", textOf(n))
			}
			level = n.Data[1]
		}
		if n.Data == "script" && (attribute(n, "src") != "docs.js" || n.FirstChild != nil) || n.Data == "style" || attribute(n, "style") != "" || attribute(n, "onclick") != "" {
			t.Errorf("the page has an inline <%s>", n.Data)
		}
	}
	for a := range elements(root, "a") {
		if id, ok := strings.CutPrefix(attribute(a, "href"), "#"); ok && !ids[id] {
			t.Errorf("a link leads to #%s, which is nowhere", id)
		}
	}
	text := textOf(root)
	for _, scope := range apikey.Scopes() {
		if !strings.Contains(text, string(scope)) {
			t.Errorf("the page lacks the scope %s", scope)
		}
	}
	for _, want := range []string{
		"1048576 bytes", "1 to 2048 characters", "one of org_timestamp, endpoint_body", "webhook-signature", "budget_exceeded",
		"GET /product/v1/_meta/limits", "GET /product/v1/_meta/catalog", "GET /product/v1/_meta/jwks", "limits[].resets_at", "swt_", "X-Switchyard-Quota-Exceeded",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// elements returns the elements of a name below a node, in the order of the page.
func elements(root *html.Node, name string) func(yield func(*html.Node) bool) {
	return func(yield func(*html.Node) bool) {
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && n.Data == name && !yield(n) {
				return
			}
		}
	}
}

// first returns the first element of a name below a node; nil if there is none.
func first(root *html.Node, name string) *html.Node {
	for n := range elements(root, name) {
		return n
	}
	return nil
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf returns the text below a node, with single spaces.
func textOf(n *html.Node) string {
	if n == nil {
		return ""
	}
	var text strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// serviceMention matches a path of a service, which a customer can't call.
var serviceMention = regexp.MustCompile(`(?:^|[^A-Za-z0-9/_}.$-])/v1/[A-Za-z0-9{*]\S*`)

// ofBatches is the value of a field of OpenAI's batches, which names a path of that API.
const ofBatches = `\"endpoint\":\"/v1/chat/completions\"`

// Texts for customers name paths as customers call them.
func TestTextsNameCustomersPaths(t *testing.T) {
	x := newWorld(t)
	root, err := html.Parse(x.do(t, "GET", "/docs", "", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	page := textOf(root)
	if !strings.Contains(page, "GET /product/v1/webhooks/signing-keys, in the forms") {
		t.Error("the page does not say where the keys of signatures are")
	}
	for _, found := range serviceMention.FindAllString(strings.ReplaceAll(page, ofBatches, ""), -1) {
		t.Errorf("the page names a path of a service: %s", found)
	}
	var document any
	if err := json.Unmarshal(x.do(t, "GET", "/openapi.json", "", "").Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	texts := 0
	eachDescription(document, func(text string) {
		texts++
		if found := serviceMention.FindString(text); found != "" {
			t.Errorf("a description names a path of a service: %s", text)
		}
	})
	if texts < 500 {
		t.Errorf("%d descriptions", texts)
	}
}

// eachDescription visits the descriptions and summaries below a node.
func eachDescription(node any, visit func(text string)) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			eachDescription(item, visit)
		}
	case map[string]any:
		for name, value := range n {
			if text, ok := value.(string); ok && (name == "description" || name == "summary") {
				visit(text)
			}
			eachDescription(value, visit)
		}
	}
}
