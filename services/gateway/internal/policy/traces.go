package policy

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/governance/pattern"
)

// Traces holds the settings of what is kept of requests. Package trace applies them.
type Traces struct {
	TraceRule `yaml:",inline"`

	// MaxBytes is the maximum length of a kept request, and of a kept answer; longer ones are shortened.
	MaxBytes int `yaml:"max_bytes"`
	// Redact are patterns of text that people must not read, in addition to what is always redacted.
	Redact []TracePattern `yaml:"redact"`
	// Organizations are rules for some organizations; the first that matches applies.
	Organizations []OrganizationTraces `yaml:"organizations"`
}

// TraceRule is what is kept. A field that is not set has the policy's value, or else the service's default.
type TraceRule struct {
	// Lineage keeps a record without content of each request, for Retention.
	Lineage   *bool          `yaml:"lineage"`
	Retention *time.Duration `yaml:"retention"`
	// Content keeps the request and the answer of SamplePercent of the requests, for ContentRetention.
	Content          *bool          `yaml:"content"`
	SamplePercent    *float64       `yaml:"sample_percent"`
	ContentRetention *time.Duration `yaml:"content_retention"`
}

// OrganizationTraces is the rule for some organizations.
type OrganizationTraces struct {
	// Organizations are patterns of names; "*" stands for any characters.
	Organizations []string `yaml:"organizations"`
	TraceRule     `yaml:",inline"`
}

// TracePattern is a kind of data that a regular expression (RE2) matches.
type TracePattern struct {
	Name    string `yaml:"name"`
	Pattern string `yaml:"pattern"`
}

// Tracing holds the resulting values for one organization.
type Tracing struct {
	Lineage                     bool
	Retention, ContentRetention time.Duration
	// SamplePercent is 0 if no content is kept.
	SamplePercent float64
	MaxBytes      int
}

// defaultTracing holds the values that apply if the policy sets none.
var defaultTracing = Tracing{
	Lineage: true, Retention: 30 * 24 * time.Hour, ContentRetention: 7 * 24 * time.Hour, SamplePercent: 100, MaxBytes: 256 << 10,
}

// Bounds of the settings.
const (
	minTraceBytes, maxTraceBytes = 1 << 10, 4 << 20
	maxRetention                 = 400 * 24 * time.Hour
)

var patternName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

func (t *Traces) check() error {
	if t.MaxBytes != 0 && (t.MaxBytes < minTraceBytes || t.MaxBytes > maxTraceBytes) {
		return fmt.Errorf("traces.max_bytes: want %d to %d", minTraceBytes, maxTraceBytes)
	}
	if err := t.TraceRule.check(); err != nil {
		return fmt.Errorf("traces.%w", err)
	}
	for _, o := range t.Organizations {
		if len(o.Organizations) == 0 {
			return errors.New("traces.organizations: each needs organizations")
		}
		if err := o.check(); err != nil {
			return fmt.Errorf("traces.organizations.%w", err)
		}
	}
	_, err := t.redactor()
	return err
}

func (r *TraceRule) check() error {
	if r.SamplePercent != nil && !(*r.SamplePercent >= 0 && *r.SamplePercent <= 100) {
		return errors.New("sample_percent: want 0 to 100")
	}
	for name, span := range map[string]*time.Duration{"retention": r.Retention, "content_retention": r.ContentRetention} {
		if span != nil && (*span < time.Minute || *span > maxRetention) {
			return fmt.Errorf("%s: want 1m to %s", name, maxRetention)
		}
	}
	return nil
}

// redactor returns a Redactor with the patterns compiled.
func (t *Traces) redactor() (*redact.Redactor, error) {
	patterns := make([]redact.Pattern, 0, len(t.Redact))
	for i, p := range t.Redact {
		if !patternName.MatchString(p.Name) {
			return nil, fmt.Errorf("traces.redact[%d].name: want small letters, digits and _", i)
		}
		expression, err := regexp.Compile(p.Pattern)
		switch {
		case err != nil:
			return nil, fmt.Errorf("traces.redact[%d].pattern: %w", i, err)
		case expression.MatchString(""):
			return nil, fmt.Errorf("traces.redact[%d].pattern: must not match the empty text", i)
		}
		patterns = append(patterns, redact.Pattern{Name: redact.Kind(p.Name), Expression: expression})
	}
	return redact.New(patterns), nil
}

// apply overwrites the values that the rule sets.
func (r *TraceRule) apply(t *Tracing) {
	if r.Lineage != nil {
		t.Lineage = *r.Lineage
	}
	if r.Retention != nil {
		t.Retention = *r.Retention
	}
	if r.ContentRetention != nil {
		t.ContentRetention = *r.ContentRetention
	}
	if r.SamplePercent != nil {
		t.SamplePercent = *r.SamplePercent
	}
	if r.Content != nil && !*r.Content {
		t.SamplePercent = 0
	}
}

// Tracing returns what is kept of an organization's requests.
func (p *Policy) Tracing(organization string) Tracing {
	for i, o := range p.traces.Organizations {
		if pattern.Any(o.Organizations, organization) {
			return p.tracings[i+1]
		}
	}
	return p.tracings[0]
}

// Redactor returns the redactor that removes what people must not read.
func (p *Policy) Redactor() *redact.Redactor { return p.redactor }

// setTraces computes the resulting values for all rules.
func (p *Policy) setTraces(t Traces) error {
	if err := t.check(); err != nil {
		return err
	}
	var err error
	if p.redactor, err = t.redactor(); err != nil {
		return err
	}
	base := defaultTracing
	if t.MaxBytes > 0 {
		base.MaxBytes = t.MaxBytes
	}
	sample := base.SamplePercent
	if t.SamplePercent != nil {
		sample = *t.SamplePercent
	}
	t.apply(&base)
	p.traces, p.tracings = t, []Tracing{base}
	for _, o := range t.Organizations {
		own := base
		if o.Content != nil && *o.Content {
			own.SamplePercent = sample // Even if the policy's own content is off.
		}
		o.apply(&own)
		p.tracings = append(p.tracings, own)
	}
	return nil
}
