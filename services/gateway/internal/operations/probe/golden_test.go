package probe_test

import (
	"os"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/operations/probe"
)

func TestParseGoldenRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "golden set", "cases: []": "cases: want 1 to 100",
		"cases: [{name: a, prompt: b}]":                                           "exactly one of exact",
		"cases: [{name: a, prompt: b, exact: c, regex: d}]":                       "exactly one of exact",
		"cases: [{name: a, exact: c}]":                                            `cases[0] "a": prompt`,
		"cases: [{prompt: b, exact: c}]":                                          "name",
		"cases: [{name: a, prompt: b, regex: '('}]":                               "regex",
		"cases: [{name: a, prompt: b, json_schema: {type: 5}}]":                   "json_schema",
		"cases: [{name: a, prompt: b, json_schema: {$ref: 'https://x.y/z'}}]":     "json_schema",
		"cases: [{name: a, prompt: b, json_schema: {$ref: 'file:///etc/x'}}]":     "json_schema",
		"cases: [{name: a, prompt: b, exact: c}, {name: a, prompt: b, exact: c}]": "appears twice",
		"max_tokens: 5000\ncases: [{name: a, prompt: b, exact: c}]":               "max_tokens",
		"cases: [{name: a, prompt: b, exact: c, check: d}]":                       "check",
	} {
		if _, err := probe.ParseGolden([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestChecks(t *testing.T) {
	set, err := probe.ParseGolden([]byte(`
cases:
  - {name: exact, prompt: p, exact: " Paris "}
  - {name: contains, prompt: p, contains: [a, b]}
  - {name: regex, prompt: p, regex: "^[0-9]+$"}
  - {name: schema, prompt: p, json_schema: {type: object, required: [n], properties: {n: {type: integer, minimum: 1}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ good, bad []string }{
		{[]string{"Paris", "Paris\n"}, []string{"paris", "Paris.", ""}},
		{[]string{"b a", "ab"}, []string{"a", "b", ""}},
		{[]string{"7", "0123"}, []string{"7a", " 7", ""}},
		{[]string{`{"n":1}`, "```json\n{\"n\": 2, \"x\": null}\n```", " {\"n\":3}\n"}, []string{`{"n":0}`, `{"n":"1"}`, `{}`, `[]`, `n`, `{"n":1} {"n":1}`, ""}},
	} {
		check := &set.Cases[i]
		for _, answer := range c.good {
			if err := check.Check(answer); err != nil {
				t.Errorf("%s of %q: %v", check.Name, answer, err)
			}
		}
		for _, answer := range c.bad {
			if check.Check(answer) == nil {
				t.Errorf("%s of %q passed", check.Name, answer)
			}
		}
	}
	if err := set.Cases[3].Check(`{"n":0}`); err == nil || !strings.Contains(err.Error(), "/n") || !strings.Contains(err.Error(), "minimum") {
		t.Errorf("%v does not say what and where", err)
	}
}

func TestShippedGoldenSet(t *testing.T) {
	text, err := os.ReadFile("../../../shipped/golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, err := probe.ParseGolden(text)
	if err != nil || len(set.Cases) == 0 || set.Version == "" {
		t.Fatal(set, err)
	}
}

func FuzzParseGolden(f *testing.F) {
	for _, seed := range []string{"cases: [{name: a, prompt: b, exact: c}]", "cases: [{name: a, prompt: b, json_schema: {type: object}}]", "a: *b", "cases: {"} {
		f.Add(seed, "answer")
	}
	f.Fuzz(func(t *testing.T, text, answer string) {
		set, err := probe.ParseGolden([]byte(text))
		if err != nil {
			return
		}
		for i := range set.Cases {
			_ = set.Cases[i].Check(answer)
		}
	})
}
