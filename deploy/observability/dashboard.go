package main

import (
	"bytes"
	"fmt"
	"os"
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
		choice("namespace", "Namespace", "label_values(process_start_time_seconds, namespace)"),
	}
	if d.uses("$job") {
		all = append(all, choice("job", "Service", `label_values(switchyard_rpc_duration_seconds_count{namespace=~"$namespace"}, job)`))
	}
	return all
}

// choice returns a variable of which the reader may choose several values, and has all at first.
func choice(name, label, query string) object {
	return object{
		"name": name, "label": label, "type": "query", "datasource": prometheus, "query": query, "refresh": 2,
		"includeAll": true, "allValue": ".*", "multi": true, "current": object{"text": "All", "value": "$__all"},
	}
}

// uses reports whether a query of the dashboard has a variable.
func (d dashboard) uses(variable string) bool {
	for _, row := range d.Rows {
		for _, p := range row.Panels {
			for _, query := range p.Queries {
				if strings.Contains(query, variable) {
					return true
				}
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
