package app

import (
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/testkit"
)

const checkedPolicy = `default_model: own/old
providers:
  - name: own
    dialect: openai
    base_url: https://own.example
    key_file: missing.key
    models: [old, {name: near, input_per_mtok_usd: "1", output_per_mtok_usd: "1"}, {name: far, identity: far, input_per_mtok_usd: "1", output_per_mtok_usd: "1"}]
`

// The dates are so far apart that the day of the test doesn't matter; "near" is within 90 days of any day after 2026.
const checkedCatalog = `providers:
  - provider: own
    models:
      - {model: old, cutoff: 2020-01-01, successor: far}
      - {model: near, cutoff: 2021-01-01}
      - {model: far, cutoff: 9000-01-01}
      - {model: claude-opus-4-5, cutoff: 2022-01-01}
`

func TestPolicyCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	good := write("good.yaml", checkedPolicy)
	models := write("catalog.yaml", checkedCatalog)
	prices := write("prices.yaml", "providers: [{provider: own, models: [{model: old, effective_from: 2020-01-01, input_per_mtok_usd: \"1\", output_per_mtok_usd: \"1\"}]}]")
	extra := write("extra.yaml", "providers:\n  - {name: groq, dialect: openai, base_url: https://groq.example, models: [m]}\n  - {name: own, dialect: openai, base_url: https://elsewhere.example}\n")
	bad := write("bad.yaml", "default_model: {chat: own/gone}\nproviders:\n  - {name: own, dialect: openai, base_url: https://own.example, models: [old]}\nbyok: maybe\n")
	rates := write("rates.yaml", "providers:\n  - {name: x, dialect: openai, base_url: https://x.example, models: [m, {name: n, input_per_mtok_usd: \"1\"}]}\n")
	address := write("address.yaml", "providers:\n  - {name: x, dialect: openai, base_url: 'ftp://x.example', models: [m]}\n")
	others := write("others.yaml", `default_model: own/near
providers:
  - name: own
    dialect: openai
    base_url: https://own.example
    models: [near, {name: alias, upstream: old}, {name: dated, upstream: claude-opus-4-5-20251101}]
`)
	authorities := write("authorities.yaml", "providers:\n  - {name: x, dialect: openai, base_url: https://x.example, models: [], ca_file: missing.pem}\n"+
		"  - {name: y, dialect: openai, base_url: https://y.example, models: [], proxy: {url: https://proxy.example, credentials_file: missing.txt}}\n")
	broken := write("broken.yaml", "providers:\n  - {name: x\n")
	bomb := write("bomb.yaml", "default_model: a/b\na: &a [x, x, x, x, x, x, x, x, x]\n"+strings.Repeat("b: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: [*b, *b, *b, *b, *b, *b]\n", 50))
	old := good + ":7:14: providers[0].models[0]: own/old was retired on 2020-01-01; use far (warning)\n"
	near := good + ":7:19: providers[0].models[1]: own/near was retired on 2021-01-01 (warning)\n"
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"clean but for warnings", []string{"--catalog", models, "--prices", prices, good}, 0, old + near},
		{"strict", []string{"--strict", "--catalog", models, "--prices", prices, good}, 1, old + near},
		{"without a price", []string{good}, 0, good + ":7:14: providers[0].models[0]: own/old has no price (warning)\n"},
		{
			"identities",
			[]string{"--identities", "--prices", prices, good},
			0,
			good + ":7:14: providers[0].models[0]: own/old has a name that is not known at other hosts; state its identity if another host has it (warning)\n" +
				good + ":7:19: providers[0].models[1]: own/near has a name that is not known at other hosts; state its identity if another host has it (warning)\n",
		},
		{
			"the vendor's end under other names",
			[]string{"--catalog", models, others},
			0,
			others + ":6:14: providers[0].models[0]: own/near has no price (warning)\n" +
				others + ":6:14: providers[0].models[0]: own/near was retired on 2021-01-01 (warning)\n" +
				others + ":6:20: providers[0].models[1]: own/alias has no price (warning)\n" +
				others + ":6:20: providers[0].models[1]: own/alias was retired on 2020-01-01; use far (warning)\n" +
				others + ":6:50: providers[0].models[2]: own/dated has no price (warning)\n" +
				others + ":6:50: providers[0].models[2]: own/dated was retired on 2022-01-01 (warning)\n",
		},
		{"further providers of the policy before", []string{"--prices", prices, good, extra}, 0, extra + ":2:76: providers[0].models[0]: groq/m has no price (warning)\n"},
		{"further providers of the shipped policy", []string{"--strict", extra}, 1, extra + ":2:76: providers[0].models[0]: groq/m has no price (warning)\n"},
		{"all problems", []string{bad}, 2, bad + ":4:7: byok: \"maybe\": want fleet, prefer or require\n" + bad + ":1:23: default_model.chat: \"own/gone\": the provider has no such model\n"},
		{"half a price", []string{rates}, 2, rates + ":2:73: providers[0].models[1]: input_per_mtok_usd and output_per_mtok_usd: both are required, or the price of a piece alone, such as per_image_usd\n"},
		{"an address that can't be called", []string{address}, 2, address + ":2:32: providers[0].base_url: must be an absolute http or https URL\n"},
		{
			"files that are elsewhere",
			[]string{"--strict", "--extra", authorities},
			1,
			authorities + ":2:73: providers[0].ca_file: open " + filepath.Join(dir, "missing.pem") + ": no such file or directory (warning)\n" +
				authorities + ":3:109: providers[1].proxy.credentials_file: can't be read: secret: open " + filepath.Join(dir, "missing.txt") + ": no such file or directory (warning)\n",
		},
		{"no YAML", []string{broken}, 2, broken + ":"},
		{"aliases without end", []string{bomb}, 2, bomb + ":"},
		{"a policy as further providers", []string{"--extra", good}, 2, good + ":1:1: field default_model: there is no such field\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := commandtest.Run(root(nil), "", append([]string{"policy", "check"}, c.args...)...)
			if done.Code != c.status {
				t.Errorf("status %d (%s), want %d", done.Code, done.Err, c.status)
			}
			if got := done.Out; got != c.want && (strings.HasSuffix(c.want, "\n") || !strings.HasPrefix(got, c.want)) {
				t.Errorf("printed\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestPolicyCheckRefuses(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.yaml")
	testkit.WriteFile(t, large, strings.Repeat(" ", bounded.MaxFile+1))
	for _, args := range [][]string{
		nil,
		{"lint"},
		{"check"},
		{"check", "--nope", "x"},
		{"check", "/nonexistent/policy.yaml"},
		{"check", large},
		{"check", "--prices", "/nonexistent/prices.yaml", large},
		{"check", "--catalog", large, large},
	} {
		if got := commandtest.Run(root(nil), "", append([]string{"policy"}, args...)...); got.Code != 2 || got.Out != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
