package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

const importPolicy = `default_model: own/claude-opus-4-5
providers:
  - {name: own, dialect: anthropic, base_url: https://api.anthropic.com, models: [claude-opus-4-5, {name: priced, upstream: claude-haiku-4-5, input_per_mtok_usd: "9", output_per_mtok_usd: "9"}]}
  - {name: aws, dialect: anthropic, base_url: https://bedrock-runtime.eu-west-1.amazonaws.com, models: [{name: deployed, upstream: "us.anthropic.claude-opus-4-5-20251101-v1:0"}]}
`

const importPrices = `providers:
  - provider: own
    models:
      - {model: claude-opus-4-5, effective_from: 2026-01-01, input_per_mtok_usd: "5", output_per_mtok_usd: "20"}
`

const importList = `{
  "sample_spec": {"input_cost_per_token": "a number"},
  "claude-opus-4-5": {"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 5e-06, "output_cost_per_token": 2.5e-05},
  "claude-haiku-4-5": {"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 5e-06},
  "us.anthropic.claude-opus-4-5-20251101-v1:0": {"litellm_provider": "bedrock_converse", "mode": "chat", "input_cost_per_token": 5.5e-06, "output_cost_per_token": 2.75e-05}
}`

func TestPricesImport(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	into := filepath.Join(dir, "out.yaml")
	rules, prices, list := write("policy.yaml", importPolicy), write("prices.yaml", importPrices), write("list.json", importList)
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string // the versions' models, in order
		report string
	}{
		{"within the threshold", nil, 0, "aws/deployed own/claude-opus-4-5", "new 1, changed 1, gone 0, suspicious 0, unmapped 1,"},
		{"beyond the threshold", []string{"--threshold", "10"}, 1, "aws/deployed", "not applied 1"},
		{"accepted", []string{"--threshold", "10", "--accept"}, 0, "aws/deployed own/claude-opus-4-5", "not applied 0"},
		{"of one provider", []string{"--providers", "own"}, 0, "own/claude-opus-4-5", "new 0, changed 1,"},
		{"into a file", []string{"-o", into}, 0, "aws/deployed own/claude-opus-4-5", "new 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"prices", "import", "--policy", rules, "--against", prices}, c.args...)
			done := commandtest.Run(root(nil), "", append(args, list)...)
			if done.Code != c.status {
				t.Errorf("status %d (%s), want %d", done.Code, done.Err, c.status)
			}
			text := []byte(done.Out)
			if c.name == "into a file" {
				if len(text) > 0 {
					t.Errorf("also printed %q", text)
				}
				var err error
				if text, err = os.ReadFile(into); err != nil {
					t.Fatal(err)
				}
			}
			rows, err := price.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			var models []string
			for _, row := range rows {
				models = append(models, row.Provider+"/"+row.Model)
				if !strings.Contains(row.Source, "SHA-256") || row.Reviewed.IsZero() {
					t.Errorf("%s has the source %q and the review %s", row.Version, row.Source, row.Reviewed)
				}
			}
			if got := strings.Join(models, " "); got != c.want {
				t.Errorf("rows of %s, want %s", got, c.want)
			}
			if !strings.Contains(done.Err, c.report) {
				t.Errorf("report\n%s\nwant %q in it", done.Err, c.report)
			}
		})
	}
}

func TestPricesImportRefuses(t *testing.T) {
	dir := t.TempDir()
	list, text := filepath.Join(dir, "list.json"), filepath.Join(dir, "text.json")
	testkit.WriteFile(t, list, importList)
	testkit.WriteFile(t, text, "prices")
	for _, args := range [][]string{
		nil,
		{"export"},
		{"import"},
		{"import", list, list},
		{"import", "--threshold", "much", list},
		{"import", "--threshold", "-1", list},
		{"import", "--threshold", "NaN", list},
		{"import", text},
		{"import", "/nonexistent/list.json"},
		{"import", "--against", text, list},
		{"import", "--policy", text, list},
		{"import", "--providers", "klingon", list},
		{"import", "-o", "/nonexistent/out.yaml", list},
	} {
		if got := commandtest.Run(root(nil), "", append([]string{"prices"}, args...)...); got.Code != 2 || got.Out != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
