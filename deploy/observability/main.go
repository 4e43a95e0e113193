// Command observability writes what is generated from two sources: Grafana's dashboards from dashboards.yaml, and the
// Prometheus operator's copy of the alert rules. `make gen` runs it; its output is committed. `observability queries`
// prints the queries of the dashboards as a rule file, which promtool can check.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

func main() {
	const dir = "deploy/observability"
	err := errors.New("usage: observability [queries]")
	switch {
	case len(os.Args) == 1:
		err = writeAll(dir)
	case len(os.Args) == 2 && os.Args[1] == "queries":
		err = printQueries(dir, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "observability:", err)
		os.Exit(1)
	}
}

func writeAll(dir string) error {
	files, err := generate(dir)
	if err != nil {
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o644); err != nil { //nolint:gosec // read by Grafana's and Prometheus's users
			return err
		}
	}
	return nil
}

// generate returns the files to write, by path below dir.
func generate(dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	dashboards, err := readDashboards(filepath.Join(dir, "dashboards.yaml"))
	if err != nil {
		return nil, err
	}
	for _, d := range dashboards {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(d.grafana()); err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
		}
		files["grafana/dashboards/"+d.UID+".json"] = out.Bytes()
	}
	rules, err := os.ReadFile(filepath.Join(dir, "prometheus", "rules.yaml"))
	if err != nil {
		return nil, err
	}
	if files["../k8s/components/prometheus/rules.yaml"], err = operatorRules(rules); err != nil {
		return nil, err
	}
	return files, nil
}

// operatorRules wraps a Prometheus rule file as the operator's resource.
func operatorRules(rules []byte) ([]byte, error) {
	var spec yaml.Node
	if err := yaml.Unmarshal(rules, &spec); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if len(spec.Content) == 0 {
		return nil, errors.New("rules: the file is empty")
	}
	spec.Content[0].HeadComment = ""
	var out bytes.Buffer
	out.WriteString("# Made by `make gen` from deploy/observability/prometheus/rules.yaml.\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Spec       *yaml.Node        `yaml:"spec"`
	}{"monitoring.coreos.com/v1", "PrometheusRule", map[string]string{"name": "switchyard"}, spec.Content[0]})
	return out.Bytes(), err
}
