package site

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// pagesOf returns the parsed pages of a site by path.
func pagesOf(t *testing.T, files map[string][]byte) map[string]*html.Node {
	t.Helper()
	pages := make(map[string]*html.Node)
	for name, text := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		page, err := html.Parse(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = page
	}
	if len(pages) < 100 {
		t.Fatalf("%d pages", len(pages))
	}
	return pages
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// idsOf returns the anchors of a page.
func idsOf(page *html.Node) (ids []string) {
	for n := range page.Descendants() {
		if id := attribute(n, "id"); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// Every link and every image leads somewhere, and every page is linked from the first one.
func TestNoDeadLink(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	pages, links := pagesOf(t, files), 0
	ids := make(map[string][]string)
	for name, page := range pages {
		ids[name] = idsOf(page)
	}
	leads := func(from, link string) {
		links++
		target, anchor, _ := strings.Cut(link, "#")
		target, _, _ = strings.Cut(target, "?")
		to := path.Join(path.Dir(from), target)
		if target == "" {
			to = from
		}
		if files[to] == nil {
			t.Errorf("%s: %s leads nowhere", from, link)
		}
		if anchor != "" && !slices.Contains(ids[to], anchor) {
			t.Errorf("%s: %s has no anchor %s", from, to, anchor)
		}
	}
	fromHome := map[string]bool{homePage: true, searchPage: true}
	for name, page := range pages {
		for n := range page.Descendants() {
			for _, link := range []string{attribute(n, "href"), attribute(n, "src"), attribute(n, "action")} {
				if link == "" || n.Data == "a" && strings.HasPrefix(link, "https://") {
					continue
				}
				leads(name, link)
				if name == homePage {
					fromHome[link] = true
				}
			}
		}
	}
	for name := range pages {
		if !fromHome[name] {
			t.Errorf("the first page has no link to %s", name)
		}
	}
	if links < 5000 {
		t.Errorf("%d links", links)
	}
	for _, entry := range entriesOf(t, files["index.js"]) {
		leads(searchPage, entry[0])
	}
}

// entriesOf reads the index of the search: link, page, section, text.
func entriesOf(t *testing.T, script []byte) (entries [][4]string) {
	t.Helper()
	_, list, found := strings.Cut(string(script), "const sections = ")
	list, end := strings.CutSuffix(strings.TrimSpace(list), ",\n];")
	if !found || !end {
		t.Fatalf("the index is %.80q…", script)
	}
	if err := json.Unmarshal([]byte(list+"]"), &entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

// The index has every page, and what tables and blocks of code hold.
func TestIndex(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]bool)
	text := make(map[string]string)
	for _, entry := range entriesOf(t, files["index.js"]) {
		name, _, _ := strings.Cut(entry[0], "#")
		pages[name] = true
		text[entry[0]] = entry[3]
	}
	if want := len(pagesOf(t, files)) - 1; len(pages) != want { // The page of the search has no text.
		t.Errorf("the index has %d pages, want %d", len(pages), want)
	}
	for link, want := range map[string]string{
		"edge/index.html#settings":                       "EDGE_KEY_PEPPER_FILE",
		"recipes/edge.html#chat":                         `customer "$EDGE_URL/product/v1/ai/chat" -d`,
		"gateway/providers.html#openai":                  "base_url: https://api.openai.com/v1",
		"webhook-egress/receiver.html":                   "deduplicate by it",
		"index.html#run-it":                              "make run # builds and starts everything",
		"decisions/0005-one-place-retries.html#decision": "only services/gateway/internal/serving/inference/attempt.go retries",
	} {
		if !strings.Contains(text[link], want) {
			t.Errorf("the text of %s lacks %q: %.200s", link, want, text[link])
		}
	}
}

// Each page has its landmarks, headings in order, and no script, style or resource that its policy would block.
func TestPagesAreWellFormed(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	titles := make(map[string]string)
	for name, page := range pagesOf(t, files) {
		ids := idsOf(page)
		slices.Sort(ids)
		if all := len(ids); len(slices.Compact(ids)) != all {
			t.Errorf("%s: an id is there twice", name)
		}
		count, level := make(map[string]int), byte('0')
		for n := range page.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			count[n.Data]++
			if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
				if n.Data[1] > level+1 {
					t.Errorf("%s: <%s> skips a level", name, n.Data)
				}
				level = n.Data[1]
			}
			if n.Data == "title" {
				titles[n.FirstChild.Data] += " " + name
			}
			checkElement(t, name, n)
		}
		for _, once := range []string{"h1", "main", "nav", "header", "title", "form"} {
			if count[once] != 1 {
				t.Errorf("%s has <%s> %d times, want once", name, once, count[once])
			}
		}
	}
	for title, names := range titles {
		if strings.Count(names, " ") > 1 {
			t.Errorf("the title %q stands on%s", title, names)
		}
	}
}

// checkElement checks that an element has no active content of its own and loads nothing from elsewhere.
func checkElement(t *testing.T, page string, n *html.Node) {
	t.Helper()
	for _, a := range n.Attr {
		if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
			t.Errorf("%s: <%s> has the attribute %s", page, n.Data, a.Key)
		}
	}
	switch n.Data {
	case "script", "link", "img":
		if from := attribute(n, "src") + attribute(n, "href"); from == "" || strings.Contains(from, ":") || n.FirstChild != nil {
			t.Errorf("%s: <%s> of %q", page, n.Data, from)
		}
		if n.Data == "img" && attribute(n, "alt") == "" {
			t.Errorf("%s: an image has no text", page)
		}
	case "style", "iframe", "object", "embed", "base":
		t.Errorf("%s has <%s>", page, n.Data)
	case "a":
		if href := attribute(n, "href"); strings.Contains(href, ":") && !strings.HasPrefix(href, "https://") {
			t.Errorf("%s: a link leads to %s", page, href)
		}
	}
}
