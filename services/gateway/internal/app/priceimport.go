package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/pricelist"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/command"
)

const pricesLong = `Compares a community's list of prices (LiteLLM's model_prices_and_context_window.json) with the price table, and writes
the rows that the table lacks, for the models of the policy and the table. The report goes to standard error.

The exit code is 0 if all is written, 1 if differences beyond the threshold were not, and 2 for bad input.`

// The exit codes of `gateway prices import`.
const (
	statusHeld     = 1
	statusBadInput = 2
)

// defaultThreshold is the change in percent up to which a price is written.
const defaultThreshold = 50

// importFiles are the files of `gateway prices import`; those that are empty are the shipped ones, or standard output.
type importFiles struct{ policy, extra, against, into string }

// pricesCommand returns `gateway prices`.
func pricesCommand() *cobra.Command {
	var files importFiles
	var o pricelist.Options
	c := &cobra.Command{
		Use: "import PRICES.json", Short: "compare a list of prices with the price table", Long: pricesLong, Args: command.Args(1, 1),
		ValidArgsFunction: command.Files,
	}
	flags := c.Flags()
	flags.StringVar(&files.policy, "policy", "", "the policy `FILE`; the shipped one if absent")
	flags.StringVar(&files.extra, "extra", "", "`FILE` of further providers")
	flags.StringVar(&files.against, "against", "", "the price table `FILE`; the shipped one if absent")
	providers := flags.String("providers", "", "only these, comma-separated")
	flags.Float64Var(&o.Threshold, "threshold", defaultThreshold, "change in percent up to which a price is written")
	flags.BoolVar(&o.Accept, "accept", false, "write changes beyond the threshold, and new models that cost nothing")
	flags.StringVarP(&files.into, "output", "o", "", "`FILE` to write; standard output if absent")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if !(o.Threshold >= 0) {
			return command.Wrong(c, "--threshold: want a percentage")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		o.Now = time.Now()
		return comparePrices(args[0], files, *providers, o, c.OutOrStdout(), c.ErrOrStderr())
	}
	return command.Group("prices", "import lists of prices", c)
}

// comparePrices compares a list with the table. Rows go to out unless a file is named, the report to report.
func comparePrices(path string, files importFiles, providers string, o pricelist.Options, out, report io.Writer) error {
	text, err := bounded.ReadFile(path, pricelist.MaxSize)
	if err != nil {
		return badInput(err)
	}
	list, err := pricelist.Parse(text)
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", path, err))
	}
	if o.Models, o.Table, err = knownModels(files.policy, files.extra, files.against, providers, o.Now); err != nil {
		return badInput(err)
	}
	result := list.Compare(o)
	if err := result.Write(report); err != nil {
		return badInput(err)
	}
	if err := writeRows(result.Rows(), files.into, out); err != nil {
		return badInput(err)
	}
	if held := result.Held(); held > 0 {
		return command.WithCode(statusHeld, fmt.Errorf("prices import: %d prices were not written: they differ by more than %g %%, or are new and free; --accept writes them", held, o.Threshold))
	}
	return nil
}

func badInput(err error) error {
	return command.WithCode(statusBadInput, fmt.Errorf("prices import: %w", err))
}

// writeRows writes rows as a price file, and checks that they are one.
func writeRows(rows []price.Row, path string, out io.Writer) error {
	var text bytes.Buffer
	if err := price.Write(&text, rows); err != nil {
		return err
	}
	if _, err := price.Parse(text.Bytes()); err != nil {
		return fmt.Errorf("the rows are no price file: %w", err)
	}
	if path == "" {
		_, err := out.Write(text.Bytes())
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644) //nolint:gosec // Prices are no secret; the service reads them as another user.
}

// knownModels returns the models of the policy and of the price table, those of some providers only if they are named
// (comma-separated), and the table. Models with a price in the policy are left out: it precedes the table's.
func knownModels(policyFile, extraFile, against, providers string, now time.Time) ([]pricelist.Model, *price.Table, error) {
	rules, table, err := rulesAndPrices(policyFile, extraFile, against)
	if err != nil {
		return nil, nil, err
	}
	wanted := strings.FieldsFunc(providers, func(c rune) bool { return c == ',' || c == ' ' })
	var models []pricelist.Model
	seen := make(map[provider.Target]bool)
	add := func(m pricelist.Model) {
		if !seen[m.Target] && (len(wanted) == 0 || slices.Contains(wanted, m.Provider)) {
			models = append(models, m)
		}
		seen[m.Target] = true
	}
	addresses := make(map[string]string)
	for _, vendor := range rules.Providers {
		addresses[vendor.Name] = vendor.BaseURL
		for _, model := range vendor.Models {
			target := provider.Target{Provider: vendor.Name, Model: model.Name}
			if model.IsZero() {
				offer := rules.Offer(target)
				add(pricelist.Model{Target: target, Upstream: offer.Upstream, Identity: offer.Identity, BaseURL: vendor.BaseURL})
			}
			seen[target] = true
		}
	}
	for _, row := range table.Rows() {
		if _, inForce := table.At(row.Provider, row.Model, now); inForce {
			add(pricelist.Model{Target: provider.Target{Provider: row.Provider, Model: row.Model}, BaseURL: addresses[row.Provider]})
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(models, func(m pricelist.Model) bool { return m.Provider == name }) {
			return nil, nil, fmt.Errorf("--providers: neither the policy nor the price table has models of %s", name)
		}
	}
	return models, table, nil
}

// rulesAndPrices reads the policy and the price table, by default those that are compiled in.
func rulesAndPrices(policyFile, extraFile, against string) (*policy.Policy, *price.Table, error) {
	files, err := readFiles(Config{PolicyFile: policyFile, ExtraProvidersFile: extraFile, PricesFile: against})
	if err != nil {
		return nil, nil, err
	}
	rules, err := policy.Parse(files.policy, files.extra)
	if err != nil {
		return nil, nil, err
	}
	rows, err := price.Parse(files.prices)
	if err != nil {
		return nil, nil, err
	}
	table, err := price.NewTable(rows)
	return rules, table, err
}
