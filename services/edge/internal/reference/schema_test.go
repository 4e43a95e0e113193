package reference

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const described = `{"components":{"schemas":{
  "Order":{"type":"object","required":["url"],"properties":{
    "url":{"type":"string","minLength":1,"maxLength":2048,"description":"Target."},
    "amount":{"type":"number","format":"double","minimum":0,"maximum":0.5},
    "kind":{"type":["string","null"],"enum":["a","b"],"pattern":"^[a-z]$"},
    "labels":{"type":"object","maxProperties":32,"additionalProperties":{"type":"string","maxLength":5}},
    "names":{"type":"array","minItems":1,"maxItems":3,"uniqueItems":true,"items":{"type":"string","maxLength":9,"pattern":"^[A-Za-z0-9_-]*$"}},
    "payload":{"description":"Free."},
    "lines":{"type":"array","items":{"$ref":"#/components/schemas/Line"}},
    "parent":{"$ref":"#/components/schemas/Parent","description":"The order before."}}},
  "Line":{"type":"object","properties":{"n":{"type":"integer","format":"int32","minimum":1}}},
  "Parent":{"type":"object","properties":{"parent":{"$ref":"#/components/schemas/Parent"}}}}}}`

func TestFields(t *testing.T) {
	var d document
	if err := json.Unmarshal([]byte(described), &d); err != nil {
		t.Fatal(err)
	}
	want := []field{
		{Name: "url", Type: "string", Meaning: "Target.", Bounds: []string{"1 to 2048 characters"}, Required: true},
		{Name: "amount", Type: "number (double)", Bounds: []string{"0 to 0.5"}},
		{Name: "kind", Type: "string or null", Bounds: []string{"one of a, b", "matches ^[a-z]$"}},
		{Name: "labels", Type: "object", Bounds: []string{"at most 32 entries", "each at most 5 characters"}},
		{Name: "lines", Type: "list of object"},
		{Name: "lines[].n", Type: "integer (int32)", Bounds: []string{"at least 1"}},
		{Name: "names", Type: "list of string", Bounds: []string{"1 to 3 items", "each once", "each at most 9 characters", "each must hold only letters, digits, _ and -"}},
		{Name: "parent", Type: "object", Meaning: "The order before."},
		{Name: "parent.parent", Type: "object"},
		{Name: "parent.parent.parent", Type: "object"},
		{Name: "parent.parent.parent.parent", Type: "object"},
		{Name: "payload", Type: "any JSON", Meaning: "Free."},
	}
	if diff := cmp.Diff(want, d.fields(schema{Ref: "#/components/schemas/Order"}, "", 0)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}
