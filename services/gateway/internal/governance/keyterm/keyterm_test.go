package keyterm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestParse(t *testing.T) {
	manyModels := strings.Repeat(`"m",`, maxModels)
	tests := map[string]struct {
		header string
		want   Terms
	}{
		"none": {"", Terms{}},
		"all": {
			`{"key":"key_1","tpm":100000,"models":["gpt-5","openai/gpt-5"],"budget":{"ceiling_cents":5000,"period":"month"},"class":"interactive"}`,
			Terms{"key_1", 100000, []string{"gpt-5", "openai/gpt-5"}, Budget{5000, organization.PeriodMonth}, ClassInteractive},
		},
		"a key alone": {`{"key":"k"}`, Terms{Key: "k"}},
		"null":        {`{"key":"k","tpm":null,"models":null,"budget":null,"class":null}`, Terms{Key: "k"}},
		"most": {
			`{"key":"` + strings.Repeat("k", 256) + `","tpm":1099511627776,"models":["` + strings.Repeat("m", 256) + `"],"budget":{"ceiling_cents":1000000000000,"period":"total"},"class":"bulk"}`,
			Terms{strings.Repeat("k", 256), maxTokens, []string{strings.Repeat("m", 256)}, Budget{maxCents, organization.PeriodTotal}, ClassBulk},
		},
		"least": {`{"key":"k","tpm":1,"budget":{"ceiling_cents":1,"period":"day"},"class":"standard"}`, Terms{Key: "k", TokensPerMinute: 1, Budget: Budget{1, organization.PeriodDay}, Class: ClassStandard}},
		"32 models": {
			`{"key":"k","models":[` + strings.TrimSuffix(manyModels, ",") + `]}`,
			Terms{Key: "k", Models: strings.Split(strings.TrimSuffix(strings.Repeat("m,", maxModels), ","), ",")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tt.header)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct{ header, rule string }{
		"no JSON":            {`key`, "must be one JSON object"},
		"no object":          {`["k"]`, "must be one JSON object"},
		"null":               {`null`, "key: "},
		"trailing data":      {`{"key":"k"} {}`, "must be one JSON object"},
		"unknown member":     {`{"key":"k","rpm":1}`, "must be one JSON object"},
		"other case":         {`{"key":"k","TPM":1}`, "must be one JSON object"},
		"unknown of budget":  {`{"key":"k","budget":{"ceiling_cents":1,"period":"day","x":1}}`, "must be one JSON object"},
		"member twice":       {`{"key":"k","key":"l"}`, "must be one JSON object"},
		"no UTF-8":           {"{\"key\":\"\xff\"}", "must be one JSON object"},
		"large header":       {`{"key":"k"}` + strings.Repeat(" ", maxHeader), "must have at most"},
		"no key":             {`{"tpm":1}`, "key: "},
		"unprintable key":    {`{"key":"a b"}`, "key: "},
		"long key":           {`{"key":"` + strings.Repeat("k", 257) + `"}`, "key: "},
		"a secret as key":    {`{"key":"sk-ant-api03-` + strings.Repeat("aB3dE6gH9j", 8) + `"}`, "key: seems"},
		"tpm 0":              {`{"key":"k","tpm":0}`, "tpm: "},
		"large tpm":          {`{"key":"k","tpm":1099511627777}`, "tpm: "},
		"huge tpm":           {`{"key":"k","tpm":1e30}`, "must be one JSON object"},
		"fraction":           {`{"key":"k","tpm":1.5}`, "must be one JSON object"},
		"text for a number":  {`{"key":"k","tpm":"1"}`, "must be one JSON object"},
		"no model":           {`{"key":"k","models":[]}`, "models: "},
		"33 models":          {`{"key":"k","models":[` + strings.Repeat(`"m",`, 32) + `"m"]}`, "models: "},
		"empty model":        {`{"key":"k","models":[""]}`, "models: "},
		"long model":         {`{"key":"k","models":["` + strings.Repeat("m", 257) + `"]}`, "models: "},
		"unprintable model":  {`{"key":"k","models":["a\nb"]}`, "models: "},
		"ceiling 0":          {`{"key":"k","budget":{"ceiling_cents":0,"period":"day"}}`, "budget.ceiling_cents: "},
		"large ceiling":      {`{"key":"k","budget":{"ceiling_cents":1000000000001,"period":"day"}}`, "budget.ceiling_cents: "},
		"no period":          {`{"key":"k","budget":{"ceiling_cents":1}}`, "budget.period: "},
		"unknown period":     {`{"key":"k","budget":{"ceiling_cents":1,"period":"week"}}`, "budget.period: "},
		"unknown class":      {`{"key":"k","class":"first"}`, "class: "},
		"empty class":        {`{"key":"k","class":""}`, "class: "},
		"deep":               {`{"key":` + strings.Repeat("[", 8000), "must be one JSON object"},
		"deep and unknown":   {`{"x":` + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + `}`, "must be one JSON object"},
		"a newline and more": {"{\"key\":\"k\"}\n{\"key\":\"l\"}", "must be one JSON object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tt.header)
			if err == nil {
				t.Fatalf("read as %+v", got)
			}
			e := apierr.From(err)
			if e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, "X-Key-Terms: "+tt.rule) {
				t.Errorf("%v, want the rule %q", e, tt.rule)
			}
		})
	}
}

func TestWeight(t *testing.T) {
	for class, want := range map[Class]int{ClassInteractive: 4, ClassStandard: 2, "": 2, ClassBulk: 1} {
		if got := class.Weight(); got != want {
			t.Errorf("%q: %d, want %d", class, got, want)
		}
	}
}

// What is read keeps to the bounds, and no error repeats a part of the header.
func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add(`{"key":"k"}`)
	f.Add(`{"key":"key_1","tpm":100000,"models":["gpt-5"],"budget":{"ceiling_cents":5000,"period":"month"},"class":"interactive"}`)
	f.Add(`{"key":"k","budget":{"ceiling_cents":-1,"period":"day"}}`)
	f.Fuzz(func(t *testing.T, header string) {
		got, err := Parse(header)
		if err != nil {
			if text := apierr.From(err).Text; !strings.HasPrefix(text, "X-Key-Terms: ") || len(text) > 120 {
				t.Errorf("error %q", text)
			}
			return
		}
		if header == "" {
			return
		}
		if got.Key == "" || len(got.Models) > maxModels || got.TokensPerMinute < 0 || got.TokensPerMinute > maxTokens ||
			got.Budget.CeilingCents < 0 || got.Budget.CeilingCents > maxCents || got.Budget.Limited() != (got.Budget.Period != "") {
			t.Errorf("%q is read as %+v", header, got)
		}
		if again, err := Parse(fmt.Sprintf(" %s\n", header)); len(header) < maxHeader-2 && (err != nil || !cmp.Equal(got, again)) {
			t.Errorf("with space around it %q is read as %+v, %v", header, again, err)
		}
	})
}

func TestParseGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("models", `{"key":"k","models":[`, `"m#",`, `"z"]}`),
		growth.Number("members", `{"key":"k"`, `,"m#":1`, `}`),
		growth.Nest("nested lists", "[", "", "]").In(`{"key":`, "}"),
		growth.Repeat("a long key", `{"key":"`, "k", `"}`),
	}
	growth.Linear(t, growth.Each(growth.UpTo(maxHeader, inputs), func(text []byte) { _, _ = Parse(string(text)) })...)
}
