package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/testkit/growth"
)

func canonicalForm(text []byte) ([]byte, error) {
	value := jsontext.Value(text).Clone()
	err := value.Canonicalize()
	return value, err
}

func read(tb testing.TB, server string, tools ...string) []Definition {
	tb.Helper()
	var l Listing
	for _, tool := range tools {
		name, text, _ := strings.Cut(tool, "=")
		l.Tools = append(l.Tools, Listed{name, json.RawMessage(text)})
	}
	definitions, err := Read(canonicalForm, toolserver.Key{Organization: "acme", ID: server}, &l)
	if err != nil {
		tb.Fatal(err)
	}
	return definitions
}

// The digest is of the meaning: neither spaces nor the order of members count, and everything else does.
func TestDigest(t *testing.T) {
	base := read(t, "s", `a={"name":"a","n":1,"x":{"y":[true]}}`)[0].Digest
	if same := read(t, "s", `a= { "x":{"y":[true]}, "n":1.0, "name":"\u0061" }`)[0].Digest; same != base {
		t.Error("the same definition has another digest")
	}
	for name, other := range map[string][]Definition{
		"a member": read(t, "s", `a={"name":"a","n":1,"x":{"y":[true]},"z":0}`), "a value": read(t, "s", `a={"name":"a","n":2,"x":{"y":[true]}}`),
		"the name": read(t, "s", `b={"name":"a","n":1,"x":{"y":[true]}}`), "the server": read(t, "t", `a={"name":"a","n":1,"x":{"y":[true]}}`),
		"an invisible character": read(t, "s", "a={\"name\":\"a\u200b\",\"n\":1,\"x\":{\"y\":[true]}}"),
	} {
		if other[0].Digest == base {
			t.Errorf("%s doesn't count", name)
		}
	}
	// Golden: the digest is stored, so that its form is kept.
	if got := base.String(); got != goldenDigest {
		t.Errorf("digest %s, want %s", got, goldenDigest)
	}
	ab, ba := read(t, "s", "a={}", "b={}"), read(t, "s", "b={}", "a={}")
	if Sum(ab) != Sum(ba) || Sum(ab) == Sum(ab[:1]) || Sum(nil) == (Digest{}) {
		t.Error("the digest of a listing")
	}
}

const goldenDigest = "9aa52022f7655d16e5793b99935a9e4c81beccd9fc05ca015b1aa0a807258de6"

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain ä 漢": "plain ä 漢", "a\u200bb": `a\u{200B}b`, "\u202egpj": `\u{202E}gpj`, "\U000E0041": `\u{E0041}`, "a\nb": `a\u{A}b`, "\xff": "\ufffd",
		"": "",
	} {
		if got := Visible(text, 100); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Visible(strings.Repeat("漢", 300), 200); utf8.RuneCountInString(got) != 201 || !strings.HasSuffix(got, "…") {
		t.Errorf("cut to %d characters", utf8.RuneCountInString(got))
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\u200b\x00\xff", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if got := Visible(text, most); !utf8.ValidString(got) || strings.ContainsFunc(got, principal.Invisible) {
			t.Errorf("%q: %q", text, got)
		}
	})
}

func TestVisibleGrowsLinearly(t *testing.T) {
	inputs := append(slices.Clone(growth.Text), growth.Repeat("invisible", "", "\u200b\U000E0041", ""), growth.Repeat("no UTF-8", "", "\xffa\u202e", ""))
	growth.Linear(t, growth.EachText(growth.UpTo(32<<10, inputs), func(text string) { _ = Visible(text, len(text)) })...)
}

func TestDifferences(t *testing.T) {
	for _, test := range []struct {
		before, after string
		want          []Difference
	}{
		{`{"a":1,"b":[1,2]}`, `{"b":[1,2],"a":1}`, nil},
		{`{"d":"x"}`, `{"d":"x\u200b"}`, []Difference{{"/d", `"x"`, `"x\u{200B}"`}}},
		{`{"a":{"b/c":1}}`, `{"a":{"b/c":2}}`, []Difference{{"/a/b~1c", "1", "2"}}},
		{`{"a":1}`, `{"b":1}`, []Difference{{"/a", "1", ""}, {"/b", "", "1"}}},
		{`{"a":[1,2,3]}`, `{"a":[1,4]}`, []Difference{{"/a/1", "2", "4"}, {"/a/2", "3", ""}}},
		{`{"a":{}}`, `{"a":null}`, []Difference{{"/a", "{}", "null"}}},
		{`{"a":null}`, `{}`, []Difference{{"/a", "null", ""}}},
		{`{"a":"1<2"}`, `{"a":1}`, []Difference{{"/a", `"1<2"`, "1"}}},
		{`{"a":1.0}`, `{"a":1}`, []Difference{{"/a", "1.0", "1"}}},
		{"{\"\u200b\":1}", `{}`, []Difference{{`/\u{200B}`, "1", ""}}},
	} {
		if got := Differences(json.RawMessage(test.before), json.RawMessage(test.after)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s, %s: %q", test.before, test.after, got)
		}
	}
	many := func(n, v int) json.RawMessage {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d":[%d,"%s"]`, i, v, strings.Repeat("x", v))
		}
		return json.RawMessage("{" + b.String()[1:] + "}")
	}
	if got := Differences(many(5000, 1), many(5000, 2)); len(got) != MaxDifferences {
		t.Errorf("%d differences", len(got))
	}
	if got := Differences(json.RawMessage(`{"a":1}`), many(1, 60_000)); len(got) != 2 || utf8.RuneCountInString(got[1].After) > maxValue+1 {
		t.Errorf("%d differences", len(got))
	}
}

func TestInvisible(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"line\nbreak\t"}`: "", `{"a":["x","y\u200b"],"b":{"c":"\u202e"}}`: "/a/1 /b/c", "{\"\u200b\":1}": `/\u{200B}`,
		`{"a":"\ud83d\udc69"}`: "",
	} {
		if got := strings.Join(Invisible(json.RawMessage(text)), " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	all := "[" + strings.TrimSuffix(strings.Repeat(`"\u200b",`, 5000), ",") + "]"
	if got := Invisible(json.RawMessage(all)); len(got) != MaxInvisible {
		t.Errorf("%d places", len(got))
	}
}

// What is shown of a server's text takes time and memory that are linear in its size.
func TestTextsGrowsLinearly(t *testing.T) {
	var rows []growth.Row
	for name, unit := range map[string]string{"objects": `{"b":"\u200b"},`, "texts": `"\u202e",`, "numbers": `1,`, "members": `{"a":1,"c":[]},`} {
		rows = append(rows, growth.Row{Name: name, Top: 4096, Make: func(n int) func() {
			text := json.RawMessage(`{"a":[` + strings.TrimSuffix(strings.Repeat(unit, n), ",") + `]}`)
			other := json.RawMessage(`{"a":[` + strings.Repeat("0,", n) + `0]}`)
			return func() {
				Differences(json.RawMessage(`{}`), text)
				Differences(text, other)
				Invisible(text)
			}
		}})
	}
	growth.Linear(t, rows...)
}

func TestReadRefuses(t *testing.T) {
	large := strings.Repeat("x", MaxText)
	var listing, many Listing
	for i := range MaxTools + 1 {
		many.Tools = append(many.Tools, Listed{fmt.Sprint("t", i), json.RawMessage("{}")})
	}
	for i := range 65 {
		listing.Tools = append(listing.Tools, Listed{fmt.Sprint("t", i), json.RawMessage(`{"x":"` + large[:MaxText-8] + `"}`)})
	}
	for name, test := range map[string]struct {
		listing Listing
		want    error
	}{
		"too many": {many, ErrTooLarge}, "too much": {listing, ErrTooLarge}, "the most": {Listing{Tools: listing.Tools[:64]}, nil}, "none": {Listing{}, nil},
		"the most tools": {Listing{Tools: many.Tools[:MaxTools]}, nil},
	} {
		if _, err := Read(canonicalForm, toolserver.Key{}, &test.listing); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}
