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

var prometheus = object{"type": "prometheus", "uid": "prometheus"}

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

// variables returns the dashboard's variables that its queries use.
func (d dashboard) variables() []object {
	for _, row := range d.Rows {
		for _, p := range row.Panels {
			for _, query := range p.Queries {
				if strings.Contains(query, "$job") {
					return []object{{
						"name": "job", "label": "Service", "type": "query", "datasource": prometheus,
						"query": "label_values(switchyard_rpc_duration_seconds_count, job)", "refresh": 2,
						"includeAll": true, "multi": true, "current": object{"text": "All", "value": "$__all"},
					}}
				}
			}
		}
	}
	return []object{}
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
			"expr": strings.ReplaceAll(p.Queries[legend], "[$rate]", "[$__rate_interval]"),
		})
	}
	return object{
		"id": id, "type": "timeseries", "title": p.Title, "datasource": prometheus, "gridPos": at, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0, "custom": object{"fillOpacity": 8, "lineWidth": 1, "showPoints": "never"}}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
}
