package strictyaml_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/platform/strictyaml"
)

// hidden is a value that no error may repeat, not even its beginning.
const hidden = "S3CRETM"

type level string

// own reads its values itself.
type own struct{ list []string }

func (o *own) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return errors.New("own: want a list")
	}
	return node.Decode(&o.list)
}

type entry struct {
	Name  string        `yaml:"name"`
	Level level         `yaml:"level"`
	Count int8          `yaml:"count"`
	Size  uint          `yaml:"size"`
	Rate  float64       `yaml:"rate"`
	On    *bool         `yaml:"on"`
	Wait  time.Duration `yaml:"wait"`
	Tags  []string      `yaml:"tags"`
	Next  *entry        `yaml:"next"`
}

type document struct {
	Entries []entry           `yaml:"entries"`
	Names   map[string]string `yaml:"names"`
	Own     own               `yaml:"own"`
	Inner   struct {
		A int `yaml:"a"`
	} `yaml:"inner"`
}

func TestDecode(t *testing.T) {
	var doc document
	if err := strictyaml.Decode([]byte("entries: [{name: a, level: b, count: 1, on: true, wait: 30s}]\nown: [x]"), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Entries) != 1 || doc.Entries[0].Wait != 30*time.Second || len(doc.Own.list) != 1 {
		t.Errorf("read %+v", doc)
	}
}

func TestDecodeErrors(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":              {"# " + hidden, "the file is empty"},
		"a text":               {hidden + "123456", "line 1: want a mapping, not a text"},
		"a text as a list":     {"entries: " + hidden, "line 1: want a list, not a text"},
		"a text as a struct":   {"\ninner: " + hidden, "line 2: want a mapping, not a text"},
		"a text as a map":      {"names: " + hidden, "line 1: want a mapping, not a text"},
		"a text as an entry":   {"entries:\n  - " + hidden, "line 2: want a mapping, not a text"},
		"a text as a number":   {"entries: [{count: " + hidden + "}]", "line 1: want a whole number, not a text"},
		"as a natural one":     {"entries: [{size: " + hidden + "}]", "line 1: want a whole number of zero or more, not a text"},
		"as a number":          {"entries: [{rate: " + hidden + "}]", "line 1: want a number, not a text"},
		"as a boolean":         {"entries: [{on: " + hidden + "}]", "line 1: want true or false, not a text"},
		"as a duration":        {"entries: [{wait: " + hidden + "}]", "line 1: want a duration such as 30s, not a text"},
		"with a line break":    {"entries: [{count: \"" + hidden[:3] + "\\n` into int\"}]", "line 1: want a whole number, not a text"},
		"too large":            {"entries: [{count: 1234}]", "line 1: the number is out of range"},
		"below zero":           {"entries: [{size: -1}]", "line 1: the number is out of range"},
		"a list as a text":     {"entries: [{name: [" + hidden + "]}]", "line 1: want a text, not a list"},
		"a mapping as one":     {"entries: [{level: {a: " + hidden + "}}]", "line 1: want a text, not a mapping"},
		"further down":         {"entries: [{next: {tags: " + hidden + "}}]", "line 1: want a list, not a text"},
		"a tag of its own":     {"entries: [{count: !" + hidden + " x}]", "line 1: want a whole number, not a value with a tag of its own"},
		"a tag that lies":      {"entries: [{count: !!int " + hidden + "}]", "a value is not of the kind that its tag says"},
		"no field":             {"entries: []\ncolour: " + hidden, "line 2: field colour: there is no such field"},
		"no name of a field":   {hidden + " and more: x", "line 1: a field: there is no such field"},
		"twice":                {"own: [a]\nown: [b]", "line 2: the field is already set at line 1"},
		"twice in a map":       {"names: {" + hidden + ": a, " + hidden + ": b}", "line 1: the field is already set at line 1"},
		"two problems":         {"entries: " + hidden + "\nnames: [a]", "line 1: want a list, not a text; line 2: want a mapping, not a list"},
		"a problem of its own": {"own: x", "own: want a list"},
		"within its own":       {"own: {a: " + hidden + "}", "line 1: want a list, not a mapping"},
		"no anchor":            {"entries: *" + hidden, "an alias (a value that begins with *) has no anchor; quote the value if it is none"},
		"itself":               {"entries: [&" + hidden + " {next: *" + hidden + "}]", "an anchor contains itself"},
		"a list as a name":     {"names: {[" + hidden + "]: a}", "line 1: want a text, not a list"},
		"a second document":    {"entries: []\n---\n" + hidden + ": x", "line 2: want one document, not a second one behind ---"},
		"a second one, broken": {"entries: []\n---\n[" + hidden, "line 2: did not find expected ',' or ']'"},
		"too many fields":      {"names:\n" + strings.Repeat("  "+hidden+": x\n", 2049), "line 2: want a mapping of at most 2048 fields"},
		"many problems":        {"entries: [" + strings.Repeat(hidden+", ", 12) + "]", strings.Repeat("line 1: want a mapping, not a text; ", 10) + "and 2 more"},
		"no YAML":              {"entries:\n  - {name: " + hidden, "line 1: did not find expected ',' or '}'"},
	} {
		t.Run(name, func(t *testing.T) {
			err := strictyaml.Decode([]byte(tt.text), &document{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
	if err := strictyaml.Decode(nil, &document{}); !errors.Is(err, strictyaml.ErrEmpty) {
		t.Errorf("an empty text: %v", err)
	}
}

// No text makes an error that shows a value, a type, or the library.
func FuzzDecode(f *testing.F) {
	f.Add("entries: [{count: x, wait: y}]\nnames: {a: [b]}")
	f.Add("a: &a [*a]\n<<: *a")
	f.Add("? {a: b}\n: c")
	f.Add("inner: {<<: x}")
	f.Fuzz(func(t *testing.T, text string) {
		err := strictyaml.Decode([]byte(text), &document{})
		if err == nil {
			return
		}
		for _, shown := range []string{"unmarshal", "!!", "strictyaml_test", "struct {", "yaml: "} {
			if strings.Contains(err.Error(), shown) && !strings.Contains(text, shown) {
				t.Errorf("%q: %v shows %q", text, err, shown)
			}
		}
	})
}
