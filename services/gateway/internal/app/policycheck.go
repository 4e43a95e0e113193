package app

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/modelid"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/shipped"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/command"
)

// The exit codes of `gateway policy check`.
const (
	statusWarnings = 1
	statusErrors   = 2
)

const policyLong = `Checks policies and files of further providers as serve reads them, without keys, network, stores or settings, and prints
file:line:column: path: rule for each problem and warning. A file without default_model is one of further providers, which
is checked with the policy before it, or the shipped one.

The exit code is 0 if all is clean, 1 for warnings with --strict, and 2 for errors.`

// policyCommand returns `gateway policy`.
func policyCommand() *cobra.Command {
	var c checker
	check := &cobra.Command{
		Use: "check FILE...", Short: "check policies and files of further providers", Long: policyLong, Args: command.Args(1, 0),
		ValidArgsFunction: command.Files,
	}
	flags := check.Flags()
	flags.BoolVar(&c.extraOnly, "extra", false, "every file is one of further providers")
	strict := flags.Bool("strict", false, "warnings end with exit code 1")
	flags.BoolVar(&c.identities, "identities", false, "warn of models whose names no other host's names are known for")
	prices := flags.String("prices", "", "the price `FILE`; the shipped one if absent")
	models := flags.String("catalog", "", "the catalog `FILE`; the shipped one if absent")
	check.RunE = func(cmd *cobra.Command, paths []string) error {
		c.out, c.now = cmd.OutOrStdout(), time.Now()
		if err := c.open(*prices, *models); err != nil {
			return command.WithCode(statusErrors, fmt.Errorf("policy check: %w", err))
		}
		return c.checkAll(paths, *strict)
	}
	return command.Group("policy", "check policies", check)
}

// checkAll checks files and returns the error with which the command ends.
func (c *checker) checkAll(paths []string, strict bool) error {
	for _, path := range paths {
		if err := c.check(path); err != nil {
			return command.WithCode(statusErrors, fmt.Errorf("policy check: %w", err))
		}
	}
	result := fmt.Errorf("policy check: errors: %d, warnings: %d", c.errors, c.warnings)
	switch {
	case c.errors > 0:
		return command.WithCode(statusErrors, result)
	case c.warnings > 0 && strict:
		return command.WithCode(statusWarnings, result)
	}
	return nil
}

// checker checks files one after another.
type checker struct {
	out                   io.Writer
	now                   time.Time
	extraOnly, identities bool
	prices, catalogText   []byte
	catalog               *catalog.File
	// base is the policy that files of further providers are checked with.
	base             policy.Source
	errors, warnings int
}

// open reads the price table and the catalog, by default those that are compiled in.
func (c *checker) open(prices, models string) (err error) {
	c.base = policy.Source{Text: shipped.Policy}
	c.prices, c.catalogText = shipped.Prices, shipped.Catalog
	if prices != "" {
		if c.prices, err = bounded.ReadFile(prices, bounded.MaxFile); err != nil {
			return err
		}
	}
	if models != "" {
		if c.catalogText, err = bounded.ReadFile(models, bounded.MaxFile); err != nil {
			return err
		}
	}
	if _, err := price.Parse(c.prices); err != nil {
		return err
	}
	c.catalog, err = catalog.Parse(c.catalogText)
	return err
}

// check checks one file, and prints its problems and warnings.
func (c *checker) check(path string) error {
	text, err := bounded.ReadFile(path, bounded.MaxFile)
	if err != nil {
		return err
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	rules, extra := policy.Source{Name: path, Text: text, KeysDir: filepath.Dir(at)}, policy.Source{}
	if c.extraOnly || !isPolicy(text) {
		rules, extra = c.base, rules
	}
	locator := policy.NewLocator(rules, extra)
	built, prices, err := buildPolicy(unrouted{}, c.prices, rules, extra)
	if err != nil {
		for _, problem := range locator.Problems(err) {
			c.errors++
			if _, err := fmt.Fprintln(c.out, problem); err != nil {
				return err
			}
		}
		return nil
	}
	if extra.Name == "" {
		c.base = rules
	}
	for _, warning := range c.warn(built, prices, locator) {
		if warning.File != path {
			continue // One of the policy that the file adds to.
		}
		c.warnings++
		if _, err := fmt.Fprintf(c.out, "%s (warning)\n", warning); err != nil {
			return err
		}
	}
	return nil
}

// isPolicy reports whether a file is a policy: files of further providers have no default model. A file that is no YAML
// is taken for a policy.
func isPolicy(text []byte) bool {
	var doc struct {
		DefaultModel yaml.Node `yaml:"default_model"`
		Providers    yaml.Node `yaml:"providers"`
	}
	err := yaml.Unmarshal(text, &doc)
	return err != nil || !doc.DefaultModel.IsZero() || doc.Providers.IsZero()
}

// unrouted makes adapters that are never called, without reading the files of proxies and CAs.
type unrouted struct{}

func (unrouted) Transport(network.Route) (http.RoundTripper, error) {
	return http.DefaultTransport, nil
}

// buildPolicy builds a policy with its prices and adapters, as a start of the service does.
func buildPolicy(out transports, prices []byte, rules, extra policy.Source) (*policy.Policy, *price.Table, error) {
	built, err := policy.Parse(rules, extra)
	if err != nil {
		return nil, nil, err
	}
	table, err := newPrices(prices, built)
	if err != nil {
		return nil, nil, err
	}
	_, err = newProviders(out, built)
	return built, table, err
}

// warn returns what is allowed but probably not intended, in the order of the policy.
func (c *checker) warn(p *policy.Policy, prices *price.Table, locator *policy.Locator) []policy.Problem {
	ends := newEnds(catalog.NewRegistry(catalog.New(p, prices, c.catalog), nil))
	all := warnOfFiles(p, locator)
	for _, vendor := range p.Providers {
		for _, model := range vendor.Models {
			offer := p.Offer(provider.Target{Provider: vendor.Name, Model: model.Name})
			place := locator.Model(offer.Target)
			for _, rule := range c.rulesOf(offer, prices, ends) {
				place.Rule = offer.String() + " " + rule
				all = append(all, place)
			}
		}
	}
	return all
}

// warnOfFiles returns which files of connections can't be read here; a start refuses them. They are no errors, because the
// policy may be checked on another machine than it is for.
func warnOfFiles(p *policy.Policy, locator *policy.Locator) []policy.Problem {
	out, err := network.New(network.Options{})
	if err == nil {
		_, err = newProviders(out, p)
	}
	if err == nil {
		return nil
	}
	return locator.Problems(err)
}

// rulesOf returns the warnings about a model.
func (c *checker) rulesOf(offer *policy.Offer, prices *price.Table, ends ends) []string {
	var all []string
	if !prices.Cost(offer.Provider, offer.Model, c.now, provider.Usage{}).Known {
		all = append(all, "has no price")
	}
	if life := ends.of(offer); life != nil && !life.Cutoff.IsZero() && life.Cutoff.Before(c.now.Add(catalog.NoticeTime)) {
		text := "is retired on "
		if life.IsRetired(c.now) {
			text = "was retired on "
		}
		text += life.Cutoff.Format(time.DateOnly)
		if life.Successor != "" {
			text += "; use " + life.Successor
		}
		all = append(all, text)
	}
	if c.identities && offer.Identity == "" && offer.Settings.Dialect != "sandbox" {
		all = append(all, "has a name that is not known at other hosts; state its identity if another host has it")
	}
	return all
}

// ends finds the end of a model at its provider: under its name, under the vendor's, and under another name of the same
// model. Requests are refused by the first alone, but the vendor ends the model under all of them.
type ends struct {
	registry   *catalog.Registry
	byIdentity map[provider.Target]*routing.Lifecycle
}

func newEnds(registry *catalog.Registry) ends {
	e := ends{registry, make(map[provider.Target]*routing.Lifecycle)}
	for _, row := range registry.Rows() {
		if known := modelid.Of(row.Model); known != "" {
			e.byIdentity[provider.Target{Provider: row.Provider, Model: known}] = registry.Lifecycle(row.Target)
		}
	}
	return e
}

// of returns the lifecycle of a model; nil if no end is known.
func (e ends) of(offer *policy.Offer) *routing.Lifecycle {
	return cmp.Or(
		e.registry.Lifecycle(offer.Target),
		e.registry.Lifecycle(provider.Target{Provider: offer.Provider, Model: offer.Upstream}),
		e.byIdentity[provider.Target{Provider: offer.Provider, Model: offer.Identity}],
	)
}
