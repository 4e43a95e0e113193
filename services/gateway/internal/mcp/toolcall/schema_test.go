package toolcall

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/platform/apierr"
)

// Schemas of draft-07, as many servers have them, are checked with its meaning; of others the refusal says why.
func TestDialectsOfSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"n":{"items":[{"const":1}]}},"dependencies":{"n":["m"]}}`: "",
		`{"type":"object","properties":{"n":{"prefixItems":[{"const":1}]}},"dependentRequired":{"n":["m"]}}`:                                          "",
		`{"$schema":"http://json-schema.org/draft-04/schema#"}`:                                                                                       "inputSchema: /$schema: must be https://json-schema.org/draft/2020-12/schema or",
		`{"properties":{"\u202e":{"$ref":"https://a.example"}}}`:                                                                                      `inputSchema: /properties/\u{202E}/$ref: must begin with #`,
	} {
		checked := newSchemas()
		tool := &definition.Reviewed{Definition: definition.Definition{Text: json.RawMessage(`{"name":"a","inputSchema":` + schema + `}`)}}
		for arguments, broken := range map[string]int{`{"n":[1],"m":0}`: 0, `{"n":[2],"m":0}`: 1, `{"n":[1]}`: 1} {
			violations, err := checked.check(t.Context(), "acme", tool, []byte(arguments))
			e, refused := errors.AsType[*apierr.Error](err)
			switch {
			case refused != (want != ""), refused && (e.Reason != definition.ReasonUnreviewed || !strings.HasPrefix(e.Text, want)):
				t.Errorf("%s: %v", schema, err)
			case !refused && len(violations) != broken:
				t.Errorf("%s: %s: %v", schema, arguments, violations)
			}
		}
	}
}
