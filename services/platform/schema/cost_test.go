package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What grows with a schema or a payload is charged, whatever the result.
func TestCheckChargesItsWork(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf(`"k%d":["z"]`, i)
	}
	for name, tt := range map[string]struct {
		schema, payload string
		least           int
	}{
		"names of dependentRequired":       {`{"dependentRequired":{` + strings.Join(names, ",") + `}}`, `{}`, 1000 * costProperty},
		"names of dependentSchemas":        {`{"dependentSchemas":{"` + long + `":{}}}`, `{}`, len(long) / bytesHashed},
		"a name of required":               {`{"required":["` + long + `"]}`, `{}`, len(long) / bytesHashed},
		"a name of required, quietly":      {`{"not":{"required":["` + long + `"]}}`, `{}`, len(long) / bytesHashed},
		"digits of a type":                 {`{"properties":{"a":{"type":"integer"}}}`, `{"a":` + strings.Repeat("7", 40_000) + `}`, 40_000 * costDigit},
		"digits of a value":                {`{"properties":{"a":{"const":1}}}`, `{"a":` + strings.Repeat("7", 40_000) + `}`, 40_000 * costDigit},
		"a number of many digits":          {`{"properties":{"a":{"multipleOf":7}}}`, `{"a":` + strings.Repeat("7", 400) + `}`, 1300 * 1300 / bitsSquared},
		"a bound of many digits":           {`{"properties":{"a":{"minimum":` + strings.Repeat("7", 400) + `}}}`, `{"a":1}`, 1300 * 1300 / bitsSquared},
		"characters":                       {`{"properties":{"a":{"minLength":1}}}`, `{"a":"` + long + `"}`, len(long) / bytesRead},
		"names to be sorted":               {`{"properties":{"z":true}}`, `{` + strings.Join(names, ",") + `}`, 1000 * (costListed + 10*costCompared)},
		"names to be sorted for a value":   {`{"const":{}}`, `{` + strings.Join(names, ",") + `}`, 1000 * (costListed + 10*costCompared + 2*costCanonical)},
		"a property's name":                {`{"properties":{"z":true}}`, `{"` + long + `":1}`, len(long) / bytesHashed},
		"a property's name, quietly":       {`{"not":{"properties":{"z":true}}}`, `{"` + long + `":1}`, len(long) / bytesHashed},
		"a name for propertyNames":         {`{"propertyNames":true}`, `{"` + long + `":1}`, len(long) / bytesHashed},
		"an unevaluated name":              {`{"unevaluatedProperties":true}`, `{"` + long + `":1}`, len(long) / bytesHashed},
		"evaluated names that are merged":  {`{"$ref":"#/$defs/a","$defs":{"a":{"additionalProperties":true}},"unevaluatedProperties":false}`, `{"` + long + `":1}`, 4 * len(long) / bytesHashed},
		"letters without case":             {`{"properties":{"a":{"pattern":"^(?i:é)*$"}}}`, `{"a":"` + strings.Repeat("É", 1000) + `"}`, 1000 * costFold},
		"letters of a class":               {`{"properties":{"a":{"pattern":"^\\p{L}*$"}}}`, `{"a":"` + strings.Repeat("ω", 1000) + `"}`, 1000 * 7 * costInstruction},
		"text before a match":              {`{"properties":{"a":{"pattern":"yyy"}}}`, `{"a":"` + long + `"}`, len(long) / bytesRead},
		"items that are checked to differ": {`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":["` + long + `"]}`, len(long) / bytesRead},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			decoder := json.NewDecoder(bytes.NewReader([]byte(tt.payload)))
			decoder.UseNumber()
			var value any
			if err := decoder.Decode(&value); err != nil {
				t.Fatal(err)
			}
			e := evaluation{prepared: s.prepared, cost: 1 << 40}
			e.value(s.root, value, false, nil)
			if cost := 1<<40 - e.cost; cost < tt.least {
				t.Errorf("the check cost %d, want at least %d", cost, tt.least)
			}
		})
	}
}

// A check that has ended neither sorts nor visits anything.
func TestEndedCheckDoesNothing(t *testing.T) {
	object := map[string]any{"a": 1, "b": 2}
	for _, quiet := range []bool{true, false} {
		e := evaluation{cost: -1}
		for name := range e.members(object, quiet) {
			t.Errorf("visited %s", name)
		}
	}
	if names := (&evaluation{cost: 10}).names(object); names != nil {
		t.Errorf("sorted %v, which costs more than is left", names)
	}
}
