package site

import (
	"strings"
	"testing"
	"testing/fstest"
)

func example() *contents {
	return &contents{
		groups: []group{
			{ID: "for-all", Title: "All", For: "You begin.", Documents: []document{
				{Path: homePage, Title: "First", Summary: "One.", Body: `<h1 id="first">First</h1><p>Hello <em>you</em>.</p>`},
			}},
			{ID: "for-some", Title: "Some", For: "You go on.", Documents: []document{
				{Path: "some/a.html", Title: "A & B", Body: `<h1 id="a">A</h1><h2 id="b">B</h2><table><tr><td>x</td><td>y</td></tr></table><h3 id="c">C</h3><pre><code>&lt;c&gt;</code></pre>`},
				{Path: "some/d.html", Title: "D", Body: `<h1 id="d">D</h1>`},
			}},
		},
		images: map[string][]byte{"images/i.png": {1}},
	}
}

// A folder without a document that its contents name is refused.
func TestReadRefuses(t *testing.T) {
	folder := fstest.MapFS{
		contentsFile:   {Data: []byte(`[{"id":"for-all","title":"All","for":"You.","documents":[{"path":"a/b.html","title":"B"}]}]`)},
		"a/b.html":     {Data: []byte(`<h1 id="b">B</h1>`)},
		"images/i.png": {Data: []byte{1}},
	}
	c, err := read(folder)
	if err != nil || len(c.groups) != 1 || c.groups[0].Documents[0].Body == "" || len(c.images) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, name := range []string{"a/b.html", contentsFile} {
		whole := folder[name]
		delete(folder, name)
		if _, err := read(folder); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
		folder[name] = whole
	}
}

// A page lists its group, and its own sections; the first page lists all documents.
func TestFrame(t *testing.T) {
	c := example()
	files, err := c.files("../docs")
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"some/a.html": {
			"<title>A &amp; B – Some – Switchyard</title>", `<link rel="stylesheet" href="../site.css">`, `<h2 id="b">B</h2>`,
			`<a href="../some/a.html" aria-current="page">A &amp; B</a>`, `<li><a href="#b">B</a></li>`, `<a href="../some/d.html">D</a>`,
			`<a href="../index.html#for-all">All</a>`, `<a href="../../docs">`,
		},
		homePage:   {"<title>Switchyard</title>", `<h3 id="for-some">Some</h3>`, `<li><a href="some/a.html">A &amp; B</a> </li>`, `<a href="../docs">`},
		searchPage: {`<script src="index.js" defer>`, `<h1>Search</h1>`},
		"index.js": {
			`["index.html","First","","Hello you."],`, `["some/a.html#b","A \u0026 B","B","x y"],`, `["some/a.html#c","A \u0026 B","C","\u003cc\u003e"],`,
		},
		"images/i.png": {"\x01"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[name]), want) {
				t.Errorf("%s lacks %s:\n%s", name, want, files[name])
			}
		}
	}
	if strings.Contains(string(files["some/a.html"]), `href="#c"`) {
		t.Error("a section below another one is listed")
	}
	if files, err = c.files(""); err != nil || strings.Contains(string(files[homePage]), "../docs") {
		t.Errorf("a link to a reference that there is not: %v", err)
	}
}
