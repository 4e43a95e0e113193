package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := generate(".")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: run `make gen` (%v)", path, err)
		}
	}
	kept, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range kept {
		if files[path] == nil {
			t.Errorf("%s: no generator writes it", path)
		}
	}
}

// providerLabel is a label that is named as our metrics are.
const providerLabel = "switchyard_provider"

var (
	instrument = regexp.MustCompile(`"((?:switchyard|notify|gen_ai)\.[a-z_.]+)"`)
	series     = regexp.MustCompile(`\b(?:switchyard|notify|gen_ai)_[A-Za-z_]+\b`)
	// Prometheus appends the unit and the kind to an instrument's name.
	suffix = regexp.MustCompile(`(?:_(?:seconds|bytes|ratio))?(?:_(?:total|bucket|sum|count))?$`)
)

// instruments returns the names of all metrics of the services, as Prometheus writes them.
func instruments(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir("../../services", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range instrument.FindAllSubmatch(source, -1) {
			names[strings.ReplaceAll(string(match[1]), ".", "_")] = true
		}
		return err
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("%d instruments found: %v", len(names), err)
	}
	return names
}

// Dashboards and alerts use metrics that a service records: without one they would never show a problem.
func TestQueriesNameWhatIsMeasured(t *testing.T) {
	known := instruments(t)
	for path, least := range map[string]int{
		"dashboards.yaml": 40, "prometheus/rules.yaml": 10, "prometheus/adapter.yaml": 3, "../k8s/components/backlog/kustomization.yaml": 1,
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		used := series.FindAllString(string(text), -1)
		for _, name := range used {
			if label := name == providerLabel || strings.HasPrefix(name, "gen_ai_request"); !label && !known[suffix.ReplaceAllString(name, "")] {
				t.Errorf("%s: no service records %s", path, name)
			}
		}
		if len(used) < least {
			t.Errorf("%s: names %d of our metrics", path, len(used))
		}
	}
}

// Every series of a dashboard is of the namespace that its reader has chosen.
func TestDashboardsHeedTheNamespace(t *testing.T) {
	dashboards, err := readDashboards("dashboards.yaml")
	if err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`\b(?:(?:switchyard|notify|mcp|process|go)_|gen_ai_client_)[A-Za-z_]+(\{\$here)?`)
	byName := regexp.MustCompile(`\{__name__=~"[^"]+",\$here`)
	for _, d := range dashboards {
		for _, p := range d.panels() {
			for _, query := range p.Queries {
				found := selector.FindAllStringSubmatch(byName.ReplaceAllString(query, "switchyard_named{$$here"), -1)
				for _, one := range found {
					if one[1] == "" && one[0] != providerLabel {
						t.Errorf("%s, %s: %s lacks {$here}", d.Title, p.Title, one[0])
					}
				}
				if len(found) == 0 {
					t.Errorf("%s, %s: no series in %s", d.Title, p.Title, query)
				}
			}
		}
	}
}

// aggregation is one of PromQL, with the labels that it keeps.
var aggregation = regexp.MustCompile(`\b(?:sum|min|max|avg|count)\b(?: by \(([a-z, ]*)\))?`)

// Alerts keep installations apart that one Prometheus scrapes.
func TestAlertsHeedTheNamespace(t *testing.T) {
	rules, _ := readRules(t)
	for _, rule := range rules {
		for _, found := range aggregation.FindAllStringSubmatch(rule.Expr, -1) {
			if !strings.HasPrefix(found[1], "namespace") {
				t.Errorf("%s: %s does not keep the label namespace", rule.Alert, found[0])
			}
		}
	}
}

// alert is one of prometheus/rules.yaml.
type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

// readRules returns all alerts, and the text of their tests.
func readRules(t *testing.T) (all []alert, tests []byte) {
	t.Helper()
	var rules struct {
		Groups []struct{ Rules []alert }
	}
	text, err := os.ReadFile("prometheus/rules.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		all = append(all, group.Rules...)
	}
	if tests, err = os.ReadFile("prometheus/rules_test.yaml"); err != nil || len(all) < 20 {
		t.Fatalf("%d alerts: %v", len(all), err)
	}
	return all, tests
}

// The metric by which webhook-egress scales is one that the adapter offers, by a query that is tested with the alerts.
func TestScalesByWhatTheAdapterOffers(t *testing.T) {
	var adapter struct {
		ExternalRules []struct {
			MetricsQuery string `yaml:"metricsQuery"`
			Name         struct{ As string }
		} `yaml:"externalRules"`
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := yaml.Unmarshal([]byte(read("prometheus/adapter.yaml")), &adapter); err != nil || len(adapter.ExternalRules) != 1 {
		t.Fatalf("adapter %+v: %v", adapter, err)
	}
	rule := adapter.ExternalRules[0]
	if !strings.Contains(read("../k8s/components/backlog/kustomization.yaml"), "metric: {name: "+rule.Name.As+"}") {
		t.Errorf("no autoscaler asks for %s", rule.Name.As)
	}
	query := strings.Replace(rule.MetricsQuery, "<<.LabelMatchers>>", `namespace="a"`, 1)
	if !strings.Contains(read("prometheus/rules_test.yaml"), "- expr: "+query+"\n") {
		t.Errorf("%s is not tested", query)
	}
}

// Every alert names a section of deploy/README.md that exists, and has a test.
func TestRunbooksExist(t *testing.T) {
	handbook, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(handbook), -1) {
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	rules, tested := readRules(t)
	for _, rule := range rules {
		anchor, ours := strings.CutPrefix(rule.Annotations["runbook_url"], "deploy/README.md#")
		if !ours || !anchors[anchor] {
			t.Errorf("%s: runbook %q is no section of deploy/README.md", rule.Alert, rule.Annotations["runbook_url"])
		}
		if !bytes.Contains(tested, []byte("alertname: "+rule.Alert)) {
			t.Errorf("%s: no test in rules_test.yaml", rule.Alert)
		}
	}
}
