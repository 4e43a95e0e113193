package reference

import (
	"bytes"
	"encoding/json"

	"switchyard.dev/services/platform/houseevent"
)

// eventType is a type of Switchyard's events, with the texts of schema and example indented.
type eventType struct {
	houseevent.Type

	SchemaText, ExampleText string
}

// eventTypes returns all types in the order of their registry.
func eventTypes() (all []eventType) {
	for _, t := range houseevent.Types() {
		all = append(all, eventType{t, indented(t.Schema), indented(t.Example)})
	}
	return all
}

func indented(text []byte) string {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return string(text)
	}
	return out.String()
}
