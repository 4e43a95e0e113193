package app

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/pricelist"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

const pricesUsage = `gateway prices import [-policy FILE] [-extra FILE] [-against FILE] [-providers a,b] [-threshold PERCENT] [-accept] [-o FILE] PRICES.json
    compares a community's list of prices (LiteLLM's model_prices_and_context_window.json) with the price table, and writes
    the rows that the table lacks, for the models of the policy and the table; the report goes to standard error
    -policy, -extra   the policy and further providers; the shipped policy when absent
    -against          the price table; the shipped one when absent
    -providers        only these
    -threshold        the change in percent up to which a price is written (50)
    -accept           write changes beyond the threshold, and new models that cost nothing
    -o                the file to write; standard output when absent
    status: 0 written, 1 differences beyond the threshold were not written, 2 bad input`

// The statuses of "gateway prices import".
const (
	statusHeld     = 1
	statusBadInput = 2
)

// defaultThreshold is the change in percent up to which a price is written.
const defaultThreshold = 50

// Prices runs `gateway prices`. It needs no settings and no database. Rows go to out unless a file is named, the report
// to report.
func Prices(args []string, out, report io.Writer) error {
	if len(args) == 0 || args[0] != "import" {
		return badInput(errors.New("want import\n" + pricesUsage))
	}
	var files struct{ policy, extra, against, into string }
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&files.policy, "policy", "", "")
	flags.StringVar(&files.extra, "extra", "", "")
	flags.StringVar(&files.against, "against", "", "")
	flags.StringVar(&files.into, "o", "", "")
	providers := flags.String("providers", "", "")
	o := pricelist.Options{Now: time.Now()}
	flags.Float64Var(&o.Threshold, "threshold", defaultThreshold, "")
	flags.BoolVar(&o.Accept, "accept", false, "")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() != 1 || !(o.Threshold >= 0) {
		return badInput(errors.New("wrong arguments\n" + pricesUsage))
	}
	text, err := readBounded(flags.Arg(0), pricelist.MaxSize)
	if err != nil {
		return badInput(err)
	}
	list, err := pricelist.Parse(text)
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", flags.Arg(0), err))
	}
	if o.Models, o.Table, err = knownModels(files.policy, files.extra, files.against, *providers, o.Now); err != nil {
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
		return &exit{statusHeld, fmt.Errorf("prices import: %d prices were not written: they differ by more than %g %%, or are new and free; -accept writes them", held, o.Threshold)}
	}
	return nil
}

func badInput(err error) error { return &exit{statusBadInput, fmt.Errorf("prices import: %w", err)} }

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
			return nil, nil, fmt.Errorf("-providers: neither the policy nor the price table has models of %s", name)
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
