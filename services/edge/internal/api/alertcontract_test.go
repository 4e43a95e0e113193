package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"switchyard.dev/services/edge/internal/alert"
)

// list returns n texts as JSON.
func list(n int, text string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(text+",", n), ",") + "]"
}

// rulesWith returns a body with a rule that has one field in place of a valid one.
func rulesWith(field, value string) string {
	rule := map[string]json.RawMessage{
		"name": json.RawMessage(`"spend"`), "types": json.RawMessage(`["switchyard.*"]`), "to": json.RawMessage(`[{"channel":"in_app"}]`),
	}
	rule[field] = json.RawMessage(value)
	text, _ := json.Marshal(map[string]any{"rules": []any{rule}})
	return string(text)
}

// checkSchema checks bodies of the operation that replaces what a path holds against the schemas of it, and against the code.
// want says which are valid. It returns the schema of the request.
func checkSchema(t *testing.T, path string, want map[string]bool, code func(body []byte) error) *jsonschema.Schema {
	t.Helper()
	w := newWorld(t).do(t, "GET", "/openapi.json", "", "")
	text, err := jsonschema.UnmarshalJSON(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("openapi.json", text); err != nil {
		t.Fatal(err)
	}
	operation := "openapi.json#/paths/" + strings.ReplaceAll(path, "/", "~1") + "/"
	var schemas []*jsonschema.Schema
	for _, at := range []string{
		"put/requestBody/content/application~1json/schema", "put/responses/200/content/application~1json/schema",
		"get/responses/200/content/application~1json/schema",
	} {
		schema, err := compiler.Compile(operation + at)
		if err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, schema)
	}
	for body, valid := range want {
		if err := code([]byte(body)); (err == nil) != valid {
			t.Errorf("the code on %.300s: %v, want valid = %t", body, err, valid)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, schema := range schemas {
			if err := schema.Validate(value); (err == nil) != valid {
				t.Errorf("the schema on %.300s: %v, want valid = %t", body, err, valid)
			}
		}
	}
	return schemas[0]
}

// The schema of alert rules and the code agree on what is a rule, on each side of each bound.
func TestAlertRulesSchema(t *testing.T) {
	fields := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"f%d":1`, i))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	target := func(fields string) string { return rulesWith("to", "[{"+fields+"}]") }
	schema := checkSchema(t, "/product/v1/alerts/rules", map[string]bool{
		`{"rules":[]}`:                                                              true,
		`{"rules":[{}]}`:                                                            false,
		rulesWith("name", `""`):                                                     false,
		rulesWith("name", `"`+long(100)+`"`):                                        true,
		rulesWith("name", `"`+long(101)+`"`):                                        false,
		rulesWith("types", `[]`):                                                    false,
		rulesWith("types", list(20, `"switchyard.a.b_1.c.d"`)):                      true,
		rulesWith("types", list(21, `"switchyard.a"`)):                              false,
		rulesWith("types", `["switchyard.a.*"]`):                                    true,
		rulesWith("types", `["switchyard.a.b.c.d.e"]`):                              false,
		rulesWith("types", `["switchyard"]`):                                        false,
		rulesWith("types", `["switchyard.*.*"]`):                                    false,
		rulesWith("types", `["switchyard.a*"]`):                                     false,
		rulesWith("types", `["order.paid"]`):                                        false,
		rulesWith("types", `["*"]`):                                                 false,
		rulesWith("where", fields(10)):                                              true,
		rulesWith("where", fields(11)):                                              false,
		rulesWith("where", `{"Percent":1}`):                                         false,
		rulesWith("where", `{"a":true,"b":"x"}`):                                    true,
		rulesWith("where", `{"a":null}`):                                            false,
		rulesWith("where", `{"a":[1]}`):                                             false,
		rulesWith("where", `{"a":"`+long(256)+`"}`):                                 true,
		rulesWith("where", `{"a":"`+long(257)+`"}`):                                 false,
		rulesWith("to", `[]`):                                                       false,
		rulesWith("to", list(10, `{"channel":"slack"}`)):                            true,
		rulesWith("to", list(11, `{"channel":"slack"}`)):                            false,
		rulesWith("enabled", "false"):                                               true,
		target(`"channel":"sms"`):                                                   false,
		target(`"user_id":"ada"`):                                                   false,
		target(`"channel":"in_app","user_id":"` + long(128) + `"`):                  true,
		target(`"channel":"in_app","user_id":"` + long(129) + `"`):                  false,
		target(`"channel":"in_app","email":"a@b.example"`):                          false,
		target(`"channel":"slack","user_id":"ada"`):                                 false,
		target(`"channel":"email","email":"a@b.example"`):                           true,
		target(`"channel":"email"`):                                                 false,
		target(`"channel":"email","email":"a@b.example","url":"https://a.example"`): false,
		target(`"channel":"web_push","user_id":"ada"`):                              true,
		target(`"channel":"web_push","user_id":"ada","broadcast":false`):            true,
		target(`"channel":"web_push","broadcast":true`):                             true,
		target(`"channel":"web_push","broadcast":false`):                            false,
		target(`"channel":"web_push","user_id":"ada","broadcast":true`):             false,
		target(`"channel":"web_push"`):                                              false,
		target(`"channel":"webhook","url":"https://a.example/"`):                    true,
		target(`"channel":"webhook","url":"ftp://a.example/"`):                      false,
		target(`"channel":"webhook"`):                                               false,
	}, func(body []byte) error {
		var rules struct{ Rules []alert.Rule }
		if err := json.Unmarshal(body, &rules); err != nil {
			t.Fatal(err)
		}
		return alert.Check(rules.Rules)
	})
	many := `{"rules":` + list(51, strings.TrimSuffix(strings.TrimPrefix(rulesWith("enabled", "true"), `{"rules":[`), "]}")) + "}"
	if value, err := jsonschema.UnmarshalJSON(strings.NewReader(many)); err != nil || schema.Validate(value) == nil {
		t.Errorf("51 rules are valid, %v", err)
	}
}

// The page of documents shows the fields of a rule with their bounds and channels.
func TestPageShowsAlertRules(t *testing.T) {
	x := newWorld(t)
	text := x.do(t, "GET", "/docs", "", "").Body.String()
	for _, want := range []string{
		"rules[].types", "rules[].where", "rules[].repeat_after", "rules[].to[].user_id", "one of in_app, slack, email, web_push, webhook", "0 to 50 items", "to 720h",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
