package houseevent_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/houseevent/houseeventtest"
)

var update = flag.Bool("update", false, "write the table of types into docs/events.md")

// form is what webhook-egress and alert rules take as a type.
var form = regexp.MustCompile(`^switchyard(\.[a-z0-9_]{1,64}){1,4}$`)

func TestTypes(t *testing.T) {
	services := []string{"edge", "gateway", "notify", "webhook-egress"}
	var names []string
	for _, e := range houseevent.Types() {
		if !form.MatchString(e.Name) || slices.Contains(names, e.Name) {
			t.Errorf("%s: not a type of an event, or twice", e.Name)
		}
		names = append(names, e.Name)
		if !slices.Contains(services, e.Service) || e.Description == "" || e.Subject == "" {
			t.Errorf("%s: service %q, description %q, subject %q", e.Name, e.Service, e.Description, e.Subject)
		}
		if found, ok := houseevent.Find(e.Name); !ok || found.Description != e.Description {
			t.Errorf("%s: found %+v", e.Name, found)
		}
		t.Run(e.Name, func(t *testing.T) {
			houseeventtest.Check(t, e.Name, e.Example)
			checkSchema(t, e)
		})
	}
	if _, ok := houseevent.Find("switchyard.nothing"); ok {
		t.Error("found a type that does not exist")
	}
}

func TestMayReceive(t *testing.T) {
	for id, want := range map[string]bool{"switchyard": true, "": false, "a b": false, "ä": false, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false} {
		if got := houseevent.MayReceive(id); got != want {
			t.Errorf("%q: %t", id, got)
		}
	}
}

// checkSchema checks what a reader of a schema relies on: it names its type, describes each property, and is whole.
func checkSchema(t *testing.T, e houseevent.Type) {
	t.Helper()
	var schema struct {
		Schema     string `json:"$schema"`
		Title      string `json:"title"`
		Type       string `json:"type"`
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(e.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Schema != "https://json-schema.org/draft/2020-12/schema" || schema.Title != e.Name || schema.Type != "object" || len(schema.Required) == 0 {
		t.Errorf("$schema %q, title %q, type %q, %d required", schema.Schema, schema.Title, schema.Type, len(schema.Required))
	}
	for name, p := range schema.Properties {
		if !strings.HasSuffix(p.Description, ".") {
			t.Errorf("%s: description %q", name, p.Description)
		}
	}
	if strings.Contains(string(e.Schema), "$ref") {
		t.Error("the schema refers to another one")
	}
}

// Each file belongs to a type.
func TestFiles(t *testing.T) {
	for _, folder := range []string{"schemas", "examples"} {
		err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if _, ok := houseevent.Find(strings.TrimSuffix(path, ".json")); !ok {
					t.Errorf("%s/%s is of no type", folder, path)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Check refuses data that a schema does not describe.
func TestCheckRefuses(t *testing.T) {
	for name, data := range map[string]string{
		"not JSON":            `{`,
		"a field is missing":  `{"organization_id": "acme", "run_id": "r", "calls": 1}`,
		"a field is unknown":  `{"organization_id": "acme", "run_id": "r", "calls": 1, "spent_cents": 2, "more": 1}`,
		"a field's type":      `{"organization_id": "acme", "run_id": "r", "calls": "1", "spent_cents": 2}`,
		"an empty field":      `{"organization_id": "", "run_id": "r", "calls": 1, "spent_cents": 2}`,
		"the list of a field": `[]`,
	} {
		if err := houseeventtest.Validate(houseevent.RunExhausted, []byte(data)); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
	if err := houseeventtest.Validate(houseevent.ModelRetiring, []byte(`{"provider": "a", "model": "b", "successor": "", "cutoff": "tomorrow", "days": 7}`)); err == nil {
		t.Error("a date that is none passed")
	}
	if err := houseeventtest.Validate("switchyard.nothing", []byte(`{}`)); err == nil {
		t.Error("a type that does not exist passed")
	}
}

// The table in docs/events.md is that of the types.
func TestDocument(t *testing.T) {
	const path, mark = "../docs/events.md", "<!-- types -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), mark)
	if len(parts) != 3 {
		t.Fatalf("%s has %d marks, want 2", path, len(parts)-1)
	}
	table := typesTable(t)
	if *update {
		parts[1] = table
		if err := os.WriteFile(path, []byte(strings.Join(parts, mark)), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if parts[1] != table {
		t.Errorf("the table in %s is out of date; run: go test ./houseevent -run Document -update", path)
	}
}

// typesTable returns the table of all types in Markdown.
func typesTable(t *testing.T) string {
	t.Helper()
	var table strings.Builder
	table.WriteString("| Type | Service | When | Subject | Data |\n| --- | --- | --- | --- | --- |\n")
	for _, e := range houseevent.Types() {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(e.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			names = append(names, "`"+name+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", e.Name, e.Service, e.Description, e.Subject, strings.Join(names, ", "))
	}
	return table.String()
}
