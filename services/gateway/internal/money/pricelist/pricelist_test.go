package pricelist

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/testkit/growth"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 24, 15, 0, 0, 0, time.UTC)

func read(tb testing.TB) *List {
	tb.Helper()
	text, err := os.ReadFile("testdata/list.json")
	if err != nil {
		tb.Fatal(err)
	}
	list, err := Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// models are those of a fleet with all kinds of hosts.
func models() []Model {
	of := func(provider, baseURL string, names ...string) (all []Model) {
		for _, name := range names {
			name, upstream, _ := strings.Cut(name, "=")
			all = append(all, Model{Target: target(provider, name), Upstream: upstream, BaseURL: baseURL})
		}
		return all
	}
	return slices.Concat(
		of("openai", "https://api.openai.com/v1", "gpt-6-luna", "text-embedding-3-small", "text-embedding-3-large", "whisper-1", "tts-1", "gpt-image-9", "painter",
			"no-output", "free-preview", "negative", "ranges", "gpt-4o"),
		of("anthropic", "https://api.anthropic.com", "claude-opus-4-5", "claude-haiku-4-5", "claude-sonnet-4-6", "smart=claude-sonnet-5-5"),
		of("aws", "https://bedrock-runtime.us-east-1.amazonaws.com", "us.anthropic.claude-opus-4-5-20251101-v1:0", "eu.anthropic.claude-opus-4-5-20251101-v1:0"),
		of("gcp", "https://us-east5-aiplatform.googleapis.com", "claude-opus-4-5=claude-opus-4-5@20251101", "gemini-3.5-flash"),
		of("azure", "", "gpt-5"),
		of("groq", "", "openai/gpt-oss-120b"), of("router", "https://openrouter.ai/api/v1", "openai/gpt-oss-120b"), of("cerebras", "", "gpt-oss-120b"),
		of("cohere", "https://api.cohere.com", "embed-v4.0", "rerank-v3.5"),
		of("box", "", "sandbox"),
	)
}

func target(of, model string) provider.Target { return provider.Target{Provider: of, Model: model} }

// The report and the rows of a small list, compared with the shipped prices.
func TestGolden(t *testing.T) {
	table := pricetest.Table(t, string(shipped.Prices))
	for name, o := range map[string]Options{
		"half":   {Threshold: 50},
		"strict": {Threshold: 10},
		"accept": {Threshold: 10, Accept: true},
	} {
		o.Models, o.Table, o.Now = models(), table, now
		report := read(t).Compare(o)
		var text, rows bytes.Buffer
		if err := report.Write(&text); err != nil {
			t.Fatal(err)
		}
		if err := price.Write(&rows, report.Rows()); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".report", text.String())
		golden(t, name+".yaml", rows.String())

		written, err := price.Parse(rows.Bytes())
		if err != nil {
			t.Fatalf("%s: the rows can't be read: %v", name, err)
		}
		if _, err := price.NewTable(append(table.Rows(), written...)); err != nil {
			t.Errorf("%s: the rows don't fit the table: %v", name, err)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// The rows that a list gives are not given again once the table has them.
func TestImportTwice(t *testing.T) {
	table := pricetest.Table(t, string(shipped.Prices))
	o := Options{Models: models(), Table: table, Threshold: 10, Accept: true, Now: now}
	first := read(t).Compare(o)
	next, err := price.NewTable(append(table.Rows(), first.Rows()...))
	if err != nil {
		t.Fatal(err)
	}
	o.Table = next
	if again := read(t).Compare(o); len(again.Rows()) != 0 {
		t.Errorf("%d rows again, such as %+v", len(again.Rows()), again.Rows()[0])
	}
	// A second change on one day gets the next day: a row's version is permanent.
	text := strings.Replace(string(mustRead(t)), `"input_cost_per_token": 5e-06, "output_cost_per_token": 2.5e-05, "cache_read_input_token_cost": 5e-07,
    "cache_creation`, `"input_cost_per_token": 6e-06, "output_cost_per_token": 2.5e-05, "cache_read_input_token_cost": 5e-07,
    "cache_creation`, 1)
	list, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rows := pricetest.Table(t, `providers: [{provider: anthropic, models: [{model: claude-opus-4-5, effective_from: 2026-11-24, input_per_mtok_usd: "5", output_per_mtok_usd: "25"}]}]`)
	again := list.Compare(Options{Models: []Model{{Target: target("anthropic", "claude-opus-4-5")}}, Table: rows, Accept: true, Now: now})
	if got := again.Rows(); len(got) != 1 || got[0].Version != "anthropic/claude-opus-4-5@2026-11-25" {
		t.Errorf("%+v, want one row of the next day", got)
	}
}

func mustRead(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/list.json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]price.Rate{
		"0": 0, "0.0": 0, "3e-06": 3_000_000, "3.5999999999999996e-06": 3_600_000, "0.000000025": 25_000, "1.5E-7": 150_000,
		"1e-12": 1, "4e-13": 0, "5e-13": 1, "0.0032": 3_200_000_000, "1e6": 1e18,
	} {
		if got, err := decimal(text); err != nil || got != want {
			t.Errorf("decimal(%s) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1e-6", "+1", `"1"`, "1e7", "1e99", "1e999999999", "1e-999999999", strings.Repeat("9", 1000), "0." + strings.Repeat("1", 1000), "NaN", "true", "[1]", "{}", "0x1", "1/3"} {
		if got, err := decimal(text); err == nil {
			t.Errorf("decimal(%.20s) = %d, want an error", text, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "must be a JSON object",
		"[]":                                     "must be a JSON object",
		`{"a": }`:                                "must be a JSON object",
		`{"a":` + strings.Repeat("[", 300) + `}`: "nested",
		`{}`:                                     "no models",
		`{"sample_spec": {}, "a": 1}`:            "no models",
		"{" + strings.Repeat(" ", MaxSize) + "}": "more than",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s in it", text, err, want)
		}
	}
}

// An entry that is listed twice is not believed either time.
func TestEntriesThatContradict(t *testing.T) {
	const price1, price2 = `"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}`, `"input_cost_per_token": 2e-6, "output_cost_per_token": 1e-6}`
	for text, want := range map[string]string{
		`{"m": {"litellm_provider": "openai", ` + price1 + `, "m": {"litellm_provider": "openai", ` + price1 + `}`:        "twice",
		`{"m": {"litellm_provider": "openai", ` + price1 + `, "openai/m": {"litellm_provider": "openai", ` + price2 + `}`: "other prices",
		`{"m": {"litellm_provider": "openai", ` + price1 + `, "openai/m": {"litellm_provider": "openai", ` + price1 + `}`: "",
	} {
		list, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		table, err := price.NewTable(nil)
		if err != nil {
			t.Fatal(err)
		}
		report := list.Compare(Options{Models: []Model{{Target: target("openai", "m")}}, Table: table, Now: now})
		if got := fmt.Sprint(report.Suspicious); !strings.Contains(got, want) || (len(report.Suspicious) == 0) != (want == "") {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
}

// Names of the list can't reach a terminal as they are.
func TestReportQuotes(t *testing.T) {
	list, err := Parse([]byte(`{"evil\u001b[2J\nnew: x": {"litellm_provider": "openai"}}`))
	if err != nil {
		t.Fatal(err)
	}
	table, err := price.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	report := list.Compare(Options{Table: table, Now: now})
	var text bytes.Buffer
	if err := report.Write(&text); err != nil || strings.ContainsRune(text.String(), '\x1b') || strings.Count(text.String(), "\n") != 2 {
		t.Errorf("%q, %v", text.String(), err)
	}
}

func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/list.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"a": {"litellm_provider": "openai", "input_cost_per_token_above_0k_tokens": 1}}`))
	table := pricetest.Table(f, string(shipped.Prices))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Parse(text)
		if err != nil {
			return
		}
		report := list.Compare(Options{Models: models(), Table: table, Threshold: 50, Now: now})
		var rows bytes.Buffer
		if err := price.Write(&rows, report.Rows()); err != nil {
			t.Fatal(err)
		}
		written, err := price.Parse(rows.Bytes())
		if err != nil {
			t.Fatalf("%v:\n%s", err, rows.String())
		}
		for _, row := range written {
			if rate := max(row.Rates.Rate(provider.BucketInput), row.Rates.Rate(provider.BucketOutput)); rate > maxToken {
				t.Fatalf("%s costs %d pico-USD a token", row.Version, rate)
			}
		}
	})
}

func TestParseGrowsLinearly(t *testing.T) {
	table := pricetest.Table(t, string(shipped.Prices))
	one := `"m#": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6},`
	inputs := []growth.Input{
		growth.Number("entries", "{", one, `"z": {}}`),
		growth.Number("names of one model", "{", strings.ReplaceAll(one, "m#", "x#/gpt-6-luna"), `"z": {}}`),
		growth.Number("tiers", `{"gpt-6-luna": {"litellm_provider": "openai",`, `"input_cost_per_token_above_#k_tokens": 1e-6,`, `"input_cost_per_token": 1e-6, "output_cost_per_token": 0}}`),
		growth.Nest("nested", "[", "", "]").In(`{"m": {"x": `, "}}"),
		growth.Repeat("a long number", `{"m": {"input_cost_per_token": 1`, "0", "}}"),
	}
	growth.Linear(t, growth.Each(growth.UpTo(256<<10, inputs), func(text []byte) {
		if list, err := Parse(text); err == nil {
			_ = list.Compare(Options{Models: models(), Table: table, Threshold: 50, Now: now})
		}
	})...)
}
