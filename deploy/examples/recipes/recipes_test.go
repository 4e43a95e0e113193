package recipes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/examples/recipes"
)

func TestCalls(t *testing.T) {
	const script = `customer() { curl -H "Key: $KEY" "$@"; }
# customer "$EDGE_URL/remark"
ID=$(customer "$EDGE_URL/a" \
  -d '{"a":
  "it"}' | jq -r .id) # what it is
customer -X DELETE "$EDGE_URL/a/$ID?x=1"
echo customer
`
	want := []recipes.Call{
		{"POST", "/a", "ID=$(curl -H \"Key: $KEY\" \"$EDGE_URL/a\" \\\n  -d '{\"a\":\n  \"it\"}' | jq -r .id)"},
		{"DELETE", "/a/$ID", "curl -H \"Key: $KEY\" -X DELETE \"$EDGE_URL/a/$ID?x=1\""},
	}
	if diff := cmp.Diff(want, recipes.Calls(script)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
