package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// dashboard is one page of dashboards.yaml.
type dashboard struct {
	UID   string `yaml:"uid"`
	Title string `yaml:"title"`
	Rows  []struct {
		Title  string  `yaml:"title"`
		Panels []panel `yaml:"panels"`
	} `yaml:"rows"`
}

type panel struct {
	Title string `yaml:"title"`
	// Unit is a Grafana unit id, such as "reqps".
	Unit string `yaml:"unit"`
	// Queries holds PromQL by legend.
	Queries map[string]string `yaml:"queries"`
}

func readDashboards(path string) ([]dashboard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var all []dashboard
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// Grafana's grid is 24 units wide.
const (
	gridWidth   = 24
	panelHeight = 8
)

// recording is a rule that records what a panel shows.
type recording struct {
	Record string `yaml:"record"`
	Expr   string `yaml:"expr"`
}

// chosen puts values in the place of the variables.
var chosen = strings.NewReplacer("[$rate]", "[5m]", "$here", `namespace=~"a|b"`, "$job", "gateway|edge")

// printQueries writes a rule file of the queries of all dashboards.
func printQueries(dir string, to io.Writer) error {
	dashboards, err := readDashboards(filepath.Join(dir, "dashboards.yaml"))
	if err != nil {
		return err
	}
	type group struct {
		Name  string      `yaml:"name"`
		Rules []recording `yaml:"rules"`
	}
	groups := make([]group, 0, len(dashboards))
	for _, d := range dashboards {
		g := group{Name: d.UID}
		for _, p := range d.panels() {
			for _, query := range p.Queries {
				g.Rules = append(g.Rules, recording{
					Record: fmt.Sprintf("%s:%d", strings.ReplaceAll(d.UID, "-", "_"), len(g.Rules)), Expr: chosen.Replace(query),
				})
			}
		}
		groups = append(groups, g)
	}
	return yaml.NewEncoder(to).Encode(map[string]any{"groups": groups})
}

// panels returns the panels of all rows.
func (d dashboard) panels() []panel {
	var all []panel
	for _, row := range d.Rows {
		all = append(all, row.Panels...)
	}
	return all
}

// object is a JSON object of Grafana's dashboard model.
type object = map[string]any

// prometheus is the data source that the reader chooses.
var prometheus = object{"type": "prometheus", "uid": "${datasource}"}

// grafanaVariables puts Grafana's own variables in the place of what the queries of dashboards.yaml write for them.
var grafanaVariables = strings.NewReplacer("[$rate]", "[$__rate_interval]", "$here", `namespace=~"$namespace"`)

func (d dashboard) grafana() object {
	var panels []object
	y, id := 0, 1
	for _, row := range d.Rows {
		panels = append(panels, object{
			"id": id, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": gridWidth, "h": 1},
		})
		y, id = y+1, id+1
		width := gridWidth / len(row.Panels)
		for i, p := range row.Panels {
			panels = append(panels, p.grafana(id, object{"x": i * width, "y": y, "w": width, "h": panelHeight}))
			id++
		}
		y += panelHeight
	}
	return object{
		"uid": d.UID, "title": d.Title, "tags": []string{"switchyard"}, "schemaVersion": 39, "version": 1, "editable": false,
		"time": object{"from": "now-3h", "to": "now"}, "refresh": "30s", "timezone": "browser",
		"templating": object{"list": d.variables()}, "annotations": object{"list": []object{}},
		"panels": panels,
	}
}

// variables returns the dashboard's variables: the data source, the namespace, and the services if a query uses them.
func (d dashboard) variables() []object {
	all := []object{
		{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}},
		// Services outside of Kubernetes have no namespace, which "All" includes.
		choice("namespace", "Namespace", "label_values(process_start_time_seconds{"+ours+"}, namespace)", ".*"),
	}
	if d.uses("$job") {
		all = append(all, choice("job", "Service", `label_values(process_start_time_seconds{namespace=~"$namespace",`+ours+`}, job)`, ""))
	}
	return all
}

// ours selects the processes of this system among all that a Prometheus scrapes.
const ours = `job=~"edge|control|gateway|webhook-egress|notify"`

// choice returns a variable of which the reader may choose several values, and has all at first: those of the query, or
// what the pattern matches unless it is empty.
func choice(name, label, query, pattern string) object {
	variable := object{
		"name": name, "label": label, "type": "query", "datasource": prometheus, "query": query, "refresh": 2,
		"includeAll": true, "multi": true, "current": object{"text": "All", "value": "$__all"},
	}
	if pattern != "" {
		variable["allValue"] = pattern
	}
	return variable
}

// uses reports whether a query of the dashboard has a variable.
func (d dashboard) uses(variable string) bool {
	for _, p := range d.panels() {
		for _, query := range p.Queries {
			if strings.Contains(query, variable) {
				return true
			}
		}
	}
	return false
}

func (p panel) grafana(id int, at object) object {
	legends := make([]string, 0, len(p.Queries))
	for legend := range p.Queries {
		legends = append(legends, legend)
	}
	slices.Sort(legends)
	var targets []object
	for i, legend := range legends {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": prometheus, "legendFormat": legend,
			"expr": grafanaVariables.Replace(p.Queries[legend]),
		})
	}
	return object{
		"id": id, "type": "timeseries", "title": p.Title, "datasource": prometheus, "gridPos": at, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0, "custom": object{"fillOpacity": 8, "lineWidth": 1, "showPoints": "never"}}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
}
