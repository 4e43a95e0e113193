package catalog

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
)

// The examples that people copy name no model whose end is announced: the catalog's own data decide, whatever the day. The
// models of the READMEs are served by the shipped policy, and have a price.
func TestExamplesNameModelsThatStay(t *testing.T) {
	p, err := policy.Parse(policy.Source{Text: shipped.Policy}, policy.Source{})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := price.Parse(shipped.Prices)
	if err != nil {
		t.Fatal(err)
	}
	prices, err := price.NewTable(rows)
	if err != nil {
		t.Fatal(err)
	}
	file, err := Parse(shipped.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	registry := NewRegistry(New(p, prices, file), nil)
	for _, path := range []string{"../../../../../README.md", "../../../README.md", "../../../docs/policy.md"} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range registry.Rows() {
			if end := ends(row); end != "" && names(string(raw), row.Model) {
				t.Errorf("%s names %s, which %s", path, row.Target, end)
			}
		}
		if !strings.HasSuffix(path, "README.md") {
			continue
		}
		for _, model := range examples(string(raw)) {
			if len(p.OffersOf(model)) == 0 {
				t.Errorf("%s names %s, which the shipped policy doesn't serve", path, model)
			}
			for _, offer := range p.OffersOf(model) {
				if _, known := registry.find(offer.Target); !known || !priced(prices, offer.Target) {
					t.Errorf("%s names %s, which has no price", path, offer.Target)
				}
			}
		}
	}
}

// ends returns what is known of a model's end; empty if nothing is announced.
func ends(row Row) string {
	switch {
	case !row.Cutoff.IsZero():
		return "ends on " + row.Cutoff.Format(time.DateOnly)
	case !row.DeprecatedAt.IsZero():
		return "is deprecated"
	}
	return ""
}

// names reports whether a text names a model, and not only one whose name begins or ends like it.
func names(text, model string) bool {
	return regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(model) + `($|[^\w.-]|\.(\W|$))`).MatchString(text)
}

// exampleModels matches the models of a request and of a provider in an example.
var exampleModels = regexp.MustCompile(`"model": ?"([^"]+)"|models: \[([^\]]+)\]`)

// examples returns the models of a text's examples.
func examples(text string) []string {
	var all []string
	for _, found := range exampleModels.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.FieldsFunc(found[1]+found[2], func(c rune) bool { return c == ',' || c == ' ' })...)
	}
	return all
}

func priced(prices *price.Table, t provider.Target) bool {
	for _, row := range prices.Rows() {
		if row.Provider == t.Provider && row.Model == t.Model && row.Source != "" && !row.Reviewed.IsZero() {
			return true
		}
	}
	return false
}

func TestExamplesAreFound(t *testing.T) {
	text := "models: [gpt-6.1-terra, fast]\n'{\"model\":\"sandbox\"}' uses gpt-5-mini, gpt-4o."
	if got := strings.Join(examples(text), " "); got != "gpt-6.1-terra fast sandbox" {
		t.Errorf("examples are %q", got)
	}
	for model, want := range map[string]bool{"gpt-5-mini": true, "gpt-5": false, "gpt-4o": true, "terra": false, "sandbox": true, "gpt-6": false} {
		if names(text, model) != want {
			t.Errorf("the text names %s: %t, want %t", model, !want, want)
		}
	}
}
