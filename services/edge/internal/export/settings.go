package export

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/strictyaml"
)

// Kind is the API of a destination.
type Kind string

// The kinds.
const (
	Stripe       Kind = "stripe"
	StripeStream Kind = "stripe-stream"
	OpenMeter    Kind = "openmeter"
	Lago         Kind = "lago"
)

// Kinds lists all kinds.
var Kinds = []Kind{Stripe, StripeStream, OpenMeter, Lago}

// wholeOnly reports whether a destination takes whole numbers only.
func (k Kind) wholeOnly() bool { return k == Stripe || k == StripeStream }

// memory returns how long a destination knows the identifiers of its events, less a margin; zero if it knows them as
// long as it has the events.
func (k Kind) memory() time.Duration {
	switch k {
	case Stripe, StripeStream: // promise 24 hours
		return 23 * time.Hour
	case OpenMeter: // 32 days unless it is configured otherwise
		return 31 * 24 * time.Hour
	case Lago:
	}
	return 0
}

// page returns the number of entries that a cursor moves over at once.
func (k Kind) page() int {
	if k == Stripe { // has a request for each event
		return 100
	}
	return 1000
}

// Settings is the content of the exports file.
type Settings struct {
	// Every is the interval at which counts are collected and sources are asked for more, 5 minutes if absent. Full pages
	// of the ledger are sent as they come.
	Every time.Duration `yaml:"every"`
	// Lease is for how long a replica is the one that exports, 30 seconds if absent. Another takes over after it.
	Lease time.Duration `yaml:"lease"`
	// LedgerTokenFile is for files of earlier releases, and has no effect: control reads the ledger with its own token.
	LedgerTokenFile string        `yaml:"ledger_token_file"`
	Destinations    []Destination `yaml:"destinations"`
}

// Destination is an account at a billing system.
type Destination struct {
	Name    string `yaml:"name"`
	Kind    Kind   `yaml:"kind"`
	BaseURL string `yaml:"base_url"`
	// StreamURL is where a StripeStream takes events; the base URL has its sessions.
	StreamURL string      `yaml:"stream_url"`
	KeyFile   secret.File `yaml:"key_file"`
	// Customers are the destination's names of organizations: customers, at Lago external subscription ids. Others are
	// not exported. Absent: every organization is, under its own id.
	Customers map[string]string `yaml:"customers"`
	// Meters are the destination's names of metrics: event names, at OpenMeter event types, at Lago codes.
	Meters map[string]string `yaml:"meters"`
}

// account returns where the destination's events go. Another account doesn't recognize what this one has.
func (d Destination) account() string { return string(d.Kind) + " " + d.BaseURL }

const (
	maxDestinations = 16
	maxMeters       = 64
	// ledgerPrefix begins the names of the ledger's metrics.
	ledgerPrefix = "ledger."
)

// ledgerMetrics are the metrics of a ledger row, and whether their amounts are whole numbers.
var ledgerMetrics = map[string]bool{
	"ledger.calls": true, "ledger.cost_cents": false, "ledger.cost_pico_usd": true,
	"ledger.prompt_tokens": true, "ledger.completion_tokens": true, "ledger.total_tokens": true,
}

// Read parses and checks the exports file; metrics are those that the edge counts. Relative paths in it begin at folder.
func Read(text []byte, folder string, metrics []string) (Settings, error) {
	s := Settings{Every: 5 * time.Minute, Lease: 30 * time.Second}
	if err := strictyaml.Decode(text, &s); err != nil {
		return Settings{}, fmt.Errorf("parse: %w", err)
	}
	errs := []error{s.check()}
	for i := range s.Destinations {
		d := &s.Destinations[i]
		if err := d.check(metrics); err != nil {
			errs = append(errs, fmt.Errorf("destinations[%d]: %w", i, err))
		}
		if d.KeyFile != "" && !filepath.IsAbs(string(d.KeyFile)) {
			d.KeyFile = secret.File(filepath.Join(folder, string(d.KeyFile)))
		}
	}
	return s, errors.Join(errs...)
}

func (s Settings) check() error {
	var errs []error
	if s.Every < 10*time.Millisecond || s.Every > time.Hour {
		errs = append(errs, errors.New("every: want 10ms to 1h"))
	}
	if s.Lease < time.Second || s.Lease > 10*time.Minute {
		errs = append(errs, errors.New("lease: want 1s to 10m"))
	}
	if n := len(s.Destinations); n == 0 || n > maxDestinations {
		errs = append(errs, fmt.Errorf("destinations: want 1 to %d", maxDestinations))
	}
	names := make(map[string]bool)
	for _, d := range s.Destinations {
		if names[d.Name] {
			errs = append(errs, fmt.Errorf("destinations: the name %q is used twice", d.Name))
		}
		names[d.Name] = true
	}
	return errors.Join(errs...)
}

var destinationName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func (d Destination) check(metrics []string) error {
	var errs []error
	if !destinationName.MatchString(d.Name) {
		errs = append(errs, errors.New("name: want 1 to 32 of a-z, 0-9 and -, a letter first"))
	}
	if !slices.Contains(Kinds, d.Kind) {
		errs = append(errs, errors.New("kind: want stripe, stripe-stream, openmeter or lago"))
	}
	errs = append(errs, baseURL("base_url", d.BaseURL))
	if d.Kind == StripeStream {
		errs = append(errs, baseURL("stream_url", d.StreamURL))
	} else if d.StreamURL != "" {
		errs = append(errs, errors.New("stream_url: only with the kind stripe-stream"))
	}
	if d.KeyFile == "" {
		errs = append(errs, errors.New("key_file: required"))
	}
	for organization, customer := range d.Customers {
		if organization == "" || customer == "" || len(customer) > maxName {
			errs = append(errs, fmt.Errorf("customers[%q]: want an organization and its name of at most %d bytes", organization, maxName))
		}
	}
	return errors.Join(append(errs, d.checkMeters(metrics))...)
}

// baseURL checks a base URL of a destination.
func baseURL(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New(field + ": want http or https, a host and at most a path")
	}
	return nil
}

// maxName bounds the names of customers and meters in bytes.
const maxName = 100

func (d Destination) checkMeters(metrics []string) error {
	var errs []error
	if n := len(d.Meters); n == 0 || n > maxMeters {
		errs = append(errs, fmt.Errorf("meters: want 1 to %d", maxMeters))
	}
	for metric, name := range d.Meters {
		exact, ofLedger := ledgerMetrics[metric]
		switch {
		case name == "" || len(name) > maxName:
			errs = append(errs, fmt.Errorf("meters[%q]: want a name of at most %d bytes", metric, maxName))
		case !ofLedger && !slices.Contains(metrics, metric):
			errs = append(errs, fmt.Errorf("meters[%q]: not a metric of the edge or the ledger", metric))
		case ofLedger && !exact && d.Kind.wholeOnly():
			errs = append(errs, fmt.Errorf("meters[%q]: Stripe takes whole numbers only; use ledger.cost_pico_usd", metric))
		}
	}
	return errors.Join(errs...)
}

// Reads reports whether any destination has a meter of a source.
func (s Settings) Reads(source Source) bool {
	return slices.ContainsFunc(s.Destinations, func(d Destination) bool { return d.reads(source) })
}

// reads reports whether the destination has a meter of a source.
func (d Destination) reads(s Source) bool {
	for metric := range d.Meters {
		if strings.HasPrefix(metric, ledgerPrefix) == (s == Ledger) {
			return true
		}
	}
	return false
}

// Events returns what the destination gets of an entry: an event for each meter with an amount above zero.
func (d Destination) Events(source Source, e Entry) []Event { return d.appendEvents(nil, source, e) }

// appendEvents appends the events of an entry, see Events.
func (d Destination) appendEvents(events []Event, source Source, e Entry) []Event {
	customer := e.Organization
	if d.Customers != nil {
		if customer = d.Customers[e.Organization]; customer == "" {
			return events
		}
	}
	for _, v := range e.Values {
		name, ok := d.Meters[v.Metric]
		if !ok || zero(v.Amount) {
			continue
		}
		events = append(events, Event{
			Identifier: e.ID + "/" + v.Metric, Source: source, Organization: e.Organization, Metric: v.Metric,
			Customer: customer, Name: name, Amount: v.Amount, At: e.At,
		})
	}
	return events
}
