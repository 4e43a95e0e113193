package sandbox

import (
	"fmt"
	"strings"
	"testing"
)

// A schema that repeats a long constant, or refers to a long document, doesn't make an answer many times as long.
func TestInstanceIsBounded(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	var names, properties []string
	for i := range 250 {
		names = append(names, fmt.Sprintf(`"p%d"`, i))
		properties = append(properties, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/c"}`, i))
	}
	schema := `{"$defs":{"c":{"const":"` + long + `"}},"required":[` + strings.Join(names, ",") + `],"properties":{` + strings.Join(properties, ",") + `}}`
	if got := instance([]byte(schema)); len(got) > maxRead {
		t.Errorf("%d bytes of schema made an answer of %d bytes", len(schema), len(got))
	}
	if got, want := instance([]byte(`{"$defs":{"c":{"const":"x"}},"required":["a"],"properties":{"a":{"$ref":"#/$defs/c"}}}`)), `{"a":"x"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
