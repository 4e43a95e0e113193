package policy_test

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/gateway/internal/policy"
)

const tracedPolicy = `
default_model: s/m
providers: [{name: s, dialect: sandbox, models: [m]}]
traces: `

func TestTracing(t *testing.T) {
	parse := func(text string) (*policy.Policy, error) {
		return policy.Parse(policy.Source{Text: []byte(tracedPolicy + text)}, policy.Source{})
	}
	p, err := parse("{}")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Tracing("acme"); got != (policy.Tracing{Lineage: true, Retention: 720 * time.Hour, ContentRetention: 168 * time.Hour, SamplePercent: 100, MaxBytes: 256 << 10}) {
		t.Errorf("%+v", got)
	}
	p, err = parse(`{content: false, sample_percent: 25, retention: 24h, redact: [{name: project, pattern: 'PRJ-\d+'}],
  organizations: [{organizations: [acme, "acme-*"], content: true}, {organizations: [quiet], lineage: false}, {organizations: [some], content: true, sample_percent: 1, content_retention: 1h}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for organization, want := range map[string]struct {
		lineage bool
		sample  float64
		content time.Duration
	}{
		"other": {true, 0, 168 * time.Hour}, "acme": {true, 25, 168 * time.Hour}, "acme-eu": {true, 25, 168 * time.Hour},
		"quiet": {false, 0, 168 * time.Hour}, "some": {true, 1, time.Hour},
	} {
		got := p.Tracing(organization)
		if got.Lineage != want.lineage || got.SamplePercent != want.sample {
			t.Errorf("%s: lineage %t of %v %%, want %t of %v %%", organization, got.Lineage, got.SamplePercent, want.lineage, want.sample)
		}
		if got.ContentRetention != want.content || got.Retention != 24*time.Hour {
			t.Errorf("%s: keeps content for %v and records for %v, want %v and a day", organization, got.ContentRetention, got.Retention, want.content)
		}
	}
	if got := p.Redactor().Text("PRJ-5", redact.Kinds{}); got != "[project]" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"{sample_percent: 101}": "traces.sample_percent", "{retention: 1s}": "traces.retention", "{content_retention: 90000h}": "traces.content_retention",
		"{max_bytes: 5}": "traces.max_bytes", "{redact: [{name: A, pattern: x}]}": "traces.redact[0].name", "{redact: [{name: a, pattern: '('}]}": "traces.redact[0].pattern",
		"{redact: [{name: a, pattern: 'x*'}]}": "empty", "{organizations: [{content: true}]}": "traces.organizations",
		"{organizations: [{organizations: [a], sample_percent: -1}]}": "traces.organizations.sample_percent", "{sampling: 1}": "sampling",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
