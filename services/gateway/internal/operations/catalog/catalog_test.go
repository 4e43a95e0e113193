package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/apierr"
)

const policyText = `
default_model: {chat: one/big, embeddings: one/vectors}
providers:
  - name: one
    aliases: [uno]
    dialect: openai
    base_url: https://one.example
    default_model: {chat: small}
    models:
      - {name: big, operations: [chat, vision], features: [tools], limits: {context: 1000, output: 100}}
      - {name: small, operations: [chat], features: []}
      - {name: vectors, operations: [embeddings], dimensions: {any_of: [256, 512]}}
      - {name: twin, operations: [chat]}
  - {name: two, dialect: anthropic, base_url: https://two.example, models: [twin, wise]}
  - {name: any, dialect: openai, base_url: https://any.example}
`

const catalogText = `
providers:
  - provider: one
    display_name: The One
    owner: Acme
    source: https://one.example/models
    reviewed: 2026-11-01
    models:
      - {model: big, display_name: Big, input: [text, image], output: [text], capabilities: [reasoning]}
      - {model: small, display_name: Small, input: [text], output: [text], deprecated: 2026-10-01, cutoff: 2027-02-19, successor: big, reason: slow}
      - {model: vectors, input: [text], output: [embedding], cutoff: 2027-02-20}
      - {model: ancient, cutoff: 2026-01-01, successor: big}
  - {provider: any, like: one, display_name: Anything}
  - {provider: elsewhere, models: [{model: foreign, cutoff: 2020-01-01}]}
`

const pricesText = `
providers:
  - provider: one
    source: https://one.example/prices
    reviewed: 2026-08-01
    models: [{model: big, effective_from: 2026-01-01, input_per_mtok_usd: "2", output_per_mtok_usd: "8"}]
`

func now(tb testing.TB, text string) time.Time {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

func sources(tb testing.TB) *Catalog {
	tb.Helper()
	p, err := policy.Parse(policy.Source{Text: []byte(policyText)}, policy.Source{})
	if err != nil {
		tb.Fatal(err)
	}
	rows, err := price.Parse([]byte(pricesText))
	if err != nil {
		tb.Fatal(err)
	}
	prices, err := price.NewTable(rows)
	if err != nil {
		tb.Fatal(err)
	}
	file, err := Parse([]byte(catalogText))
	if err != nil {
		tb.Fatal(err)
	}
	return New(p, prices, file)
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"providers: [{models: []}]":                                                           "providers[0].provider: is required",
		"providers: [{provider: a, models: [{}]}]":                                            "model: is required",
		"providers: [{provider: a, models: [{model: m}, {model: m}]}]":                        "a/m: appears twice",
		"providers: [{provider: a, models: [{model: m, cutoff: soon}]}]":                      "cutoff: want a day",
		"providers: [{provider: a, models: [{model: m, successor: m}]}]":                      "successor: is the model itself",
		"providers: [{provider: a, like: b}]":                                                 `like: "b" is not a provider listed above it`,
		"providers: [{provider: a, colour: red}]":                                             "colour",
		"providers: [{provider: a, reviewed: 2026-13-01}]":                                    "reviewed: want a day",
		"providers: [{provider: a, models: [{model: m, deprecated: 01.02.2026}]}]":            "deprecated: want a day",
		"providers: [{provider: a}, {provider: b, like: a, models: [{model: m, colour: 1}]}]": "colour",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A card names the identity of its model, by which hosts stand in for one another.
func TestCardsNameIdentities(t *testing.T) {
	p, err := policy.Parse(policy.Source{Text: []byte("default_model: a/small\nproviders: [{name: a, dialect: openai, base_url: \"https://a.example\", models: [{name: small, upstream: claude-haiku-4-5@20251001}, other]}]")}, policy.Source{})
	if err != nil {
		t.Fatal(err)
	}
	prices, err := price.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, c := range NewRegistry(New(p, prices, &File{}), nil).Cards(now(t, "2026-11-21T12:00:00Z")) {
		got[c.Model] = c.Identity
	}
	if want := map[string]string{"small": "claude-haiku-4.5", "other": ""}; !maps.Equal(got, want) {
		t.Errorf("identities %v, want %v", got, want)
	}
}

func TestCards(t *testing.T) {
	r := NewRegistry(sources(t), nil)
	at := now(t, "2026-11-21T12:00:00Z")
	var got []string
	for _, c := range r.Cards(at) {
		line := fmt.Sprintf("%s %q %v>%v %v %v %d/%d/%d default=%t %s", c.Target, c.DisplayName, c.Input, c.Output, c.Operations, c.Capabilities,
			c.Limits.Context, c.Limits.Output, c.Dimensions, c.IsDefault, c.Lifecycle.Status(at))
		if c.Price != nil {
			line += " " + c.Price.Version
		}
		got = append(got, line)
	}
	want := []string{
		`any/big "Big" [text image]>[text] [chat embeddings vision images] [streaming tools parallel_tools json_object json_schema token_input reasoning] 0/0/0 default=false active`,
		`any/small "Small" [text]>[text] [chat embeddings vision images] [streaming tools parallel_tools json_object json_schema token_input] 0/0/0 default=false active`,
		`any/vectors "vectors" [text]>[embedding] [chat embeddings vision images] [streaming tools parallel_tools json_object json_schema token_input] 0/0/0 default=false active`,
		`one/big "Big" [text image]>[text] [chat vision] [streaming tools reasoning] 1000/100/0 default=true active one/big@2026-01-01`,
		`one/small "Small" [text]>[text] [chat] [streaming] 0/0/0 default=true deprecated`,
		`one/twin "twin" [text]>[text] [chat] [streaming tools parallel_tools json_object json_schema] 0/0/0 default=false active`,
		`one/vectors "vectors" [text]>[embedding] [embeddings] [token_input] 0/0/512 default=true active`,
		`two/twin "twin" [text image]>[text] [chat vision] [streaming tools parallel_tools json_object json_schema] 0/0/0 default=true active`,
		`two/wise "wise" [text image]>[text] [chat vision] [streaming tools parallel_tools json_object json_schema] 0/0/0 default=false active`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"one": "one The One", "UNO": "one The One", "two": "two two", "any": "any Anything"} {
		if p, ok := r.Provider(name); !ok || p.Name+" "+p.DisplayName != want {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, ok := r.Provider("elsewhere"); ok {
		t.Error("a provider that is not configured has a card")
	}
}

// A lifecycle begins and ends to the second.
func TestStatusAndNotices(t *testing.T) {
	r := NewRegistry(sources(t), nil)
	notices := func(at string) string {
		var all []string
		for _, n := range r.Notices(now(t, at)) {
			kind := "deprecated"
			if n.Expiring {
				kind = "expiring"
			}
			all = append(all, n.String()+" "+kind+" "+string(n.Status(now(t, at))))
		}
		return strings.Join(all, ", ")
	}
	const ancient = "one/ancient deprecated retired"
	for at, want := range map[string]string{
		"2026-09-30T23:59:59Z": ancient,
		"2026-10-01T00:00:00Z": ancient + ", one/small deprecated deprecated",
		// 90 days before the cutoff of one/vectors, 2027-02-20, is 2026-11-22.
		"2026-11-21T23:59:59Z": ancient + ", one/small deprecated deprecated",
		"2026-11-22T00:00:00Z": ancient + ", one/small deprecated deprecated, one/vectors expiring active",
		"2027-02-18T23:59:59Z": ancient + ", one/small deprecated deprecated, one/vectors expiring active",
		"2027-02-19T00:00:00Z": ancient + ", one/small deprecated retired, one/vectors expiring active",
		"2027-02-20T00:00:00Z": ancient + ", one/small deprecated retired, one/vectors deprecated retired",
	} {
		if got := notices(at); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

func TestDeprecate(t *testing.T) {
	at := now(t, "2026-11-21T12:00:00Z")
	for _, c := range []struct {
		name    string
		request DeprecationRequest
		want    string // the successor, or status and text of the refusal
	}{
		{"the same provider's", DeprecationRequest{Model: "big", Successor: "vectors"}, "vectors"},
		{"another provider's, by its full name", DeprecationRequest{Provider: "uno", Model: "big", Successor: "two/twin"}, "two/twin"},
		{"another provider's, which alone has it", DeprecationRequest{Model: "one/big", Successor: "wise"}, "two/wise"},
		{"a twin, of the provider that is named", DeprecationRequest{Provider: "two", Model: "twin", Successor: "wise"}, "wise"},
		{"a model without a row of its own", DeprecationRequest{Provider: "two", Model: "twin", Successor: "one/twin"}, "one/twin"},
		{"a name that several have", DeprecationRequest{Model: "twin", Successor: "wise"}, "400 provider: is required, since several have this model: one, two"},
		{"an unknown model", DeprecationRequest{Model: "nonsense", Successor: "big"}, "404 model_id: there is no model"},
		{"an unknown provider", DeprecationRequest{Provider: "nobody", Model: "big", Successor: "small"}, "400 provider: no provider"},
		{"an unknown successor", DeprecationRequest{Provider: "one", Model: "big", Successor: "nonsense"}, "400 successor: there is no model"},
		{"itself", DeprecationRequest{Provider: "one", Model: "big", Successor: "big"}, "400 successor: is the model itself"},
		{"itself in full", DeprecationRequest{Provider: "one", Model: "big", Successor: "one/big"}, "400 successor: is the model itself"},
		{"a retired successor", DeprecationRequest{Provider: "one", Model: "big", Successor: "ancient"}, "400 successor: one/ancient is retired itself"},
		{"one that leads back", DeprecationRequest{Provider: "one", Model: "big", Successor: "small"}, "400 successor: one/small has the model as its own successor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.request.At = at
			if c.request.Provider == "" && c.request.Model == "big" {
				c.request.Model = "one/big"
			}
			d, err := NewRegistry(sources(t), nil).Deprecate(c.request)
			if status, text, refused := strings.Cut(c.want, " "); refused {
				if e := apierr.From(err); e == nil || fmt.Sprint(e.Kind.HTTPStatus()) != status || !strings.HasPrefix(e.Text, text) {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			}
			if err != nil || d.Successor != c.want {
				t.Errorf("%+v, %v, want %s", d, err, c.want)
			}
		})
	}
}

// What an operator sets has precedence over the catalog; an omitted cutoff stays.
func TestDeprecationsLieOverTheCatalog(t *testing.T) {
	at := now(t, "2026-11-21T12:00:00Z")
	one := func(model string) provider.Target { return provider.Target{Provider: "one", Model: model} }
	r := NewRegistry(sources(t), []Deprecation{
		{Target: one("small"), Successor: "twin", Reason: "ours", At: at, By: "ops", UpdatedAt: at},
		{Target: one("big"), Successor: "twin", Reason: "ours", Cutoff: at.Add(-time.Hour).Truncate(24 * time.Hour), At: at, By: "ops", UpdatedAt: at},
		{Target: provider.Target{Provider: "gone", Model: "x"}, Successor: "y", Reason: "r", At: at},
	})
	small, _ := r.find(one("small"))
	if small.Successor != "twin" || small.By != "ops" {
		t.Errorf("successor %q by %q, want twin by ops", small.Successor, small.By)
	}
	if want := now(t, "2027-02-19T00:00:00Z"); small.Cutoff != want {
		t.Errorf("cutoff %s, want %s", small.Cutoff, want)
	}
	if got := small.Status(at); got != Deprecated {
		t.Errorf("status %v, want %v", got, Deprecated)
	}
	if life := r.Lifecycle(one("big")); life == nil || !life.IsRetired(at) || r.Lifecycle(one("twin")) != nil {
		t.Errorf("%+v", life)
	}
	for _, c := range []struct{ provider, model, want string }{
		{"", "ancient", "one/ancient"},
		{"", "one/ancient", "one/ancient"},
		{"one", "ancient", "one/ancient"},
		{"two", "ancient", ""},
		{"", "small", ""},
		{"", "foreign", ""},
		{"", "nonsense", ""},
	} {
		target, life := r.FindRetired(c.provider, c.model, at)
		if got := target.String(); (c.want == "") != (life == nil) || life != nil && got != c.want {
			t.Errorf("%s %s: %s %v, want %s", c.provider, c.model, got, life, c.want)
		}
	}
	if slices.ContainsFunc(r.Rows(), func(row Row) bool { return row.Provider == "gone" || row.Provider == "elsewhere" }) {
		t.Error("a provider that is not configured is in the registry")
	}
}

func TestWarningFitsAHeader(t *testing.T) {
	row := Row{Target: provider.Target{Provider: "p", Model: "ü\nX-Evil: 1"}, Successor: "s\r\n"}
	if got := row.lifecycle().Warning; strings.ContainsAny(got, "\r\nü") {
		t.Errorf("%q", got)
	}
}

// The shipped catalog fits the shipped policy: every model that it deprecates has a successor that is served, and the
// policy chooses no retired model.
func TestShippedCatalog(t *testing.T) {
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
	at := now(t, "2026-11-21T12:00:00Z")
	r := NewRegistry(New(p, prices, file), nil)
	served := make(map[provider.Target]bool)
	for _, c := range r.Cards(at) {
		served[c.Target] = true
		if c.Owner == "" || c.Source == "" {
			t.Errorf("%s is in the policy with the owner %q and the source %q, want both", c.Target, c.Owner, c.Source)
		}
		if c.Reviewed.IsZero() {
			t.Errorf("%s is in the policy and has no review", c.Target)
		}
		if len(c.Input) == 0 {
			t.Errorf("%s is in the policy and has no input modalities", c.Target)
		}
		if c.Price == nil || c.Price.Source == "" || c.Price.Reviewed.IsZero() {
			t.Errorf("%s has no price with a source and a review", c.Target)
		}
		if c.Lifecycle.Status(at) == Retired {
			t.Errorf("%s is in the policy, and retired", c.Target)
		}
	}
	for _, row := range r.Rows() {
		if row.Status(at) == Active {
			continue
		}
		successor := provider.Target{Provider: row.Provider, Model: row.Successor}
		if next, ok := r.find(successor); !served[successor] || !ok || next.Status(at) != Active {
			t.Errorf("%s: its successor %q is not served here", row.Target, row.Successor)
		}
	}
	stays := func(what string, target provider.Target) {
		if life := r.Lifecycle(target); life != nil && life.IsDeprecated(at) {
			t.Errorf("%s has %s, which is deprecated", what, target)
		}
	}
	for _, operation := range provider.Operations() {
		for _, offer := range p.Ladder(operation) {
			stays("the ladder of "+string(operation), offer.Target)
		}
	}
	for _, s := range routing.Ranking(p, routing.State{Now: at, Prices: prices}) {
		stays("the goal "+string(s.Goal), provider.Target{Provider: s.Provider, Model: s.Model})
	}
	for _, d := range p.Defaults(provider.Operations()...) {
		stays("the defaults", d.Target)
	}
}
