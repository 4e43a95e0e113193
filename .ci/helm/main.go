// Command helm renders and lints a chart by Helm's library, many sets of values in one process, without a cluster and
// without a network. It reads a Request from its input and writes a Response. `make k8s` builds it: a module of its own,
// so that no other module depends on Helm, and with two thirds of the packages of its command line.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
)

// A Request names a chart, the release and cluster that it is rendered for, and sets of values as YAML.
type Request struct {
	Chart       string   `json:"chart"`
	Namespace   string   `json:"namespace"`
	KubeVersion string   `json:"kube_version"`
	Values      []string `json:"values"`
}

// A Response has what the linter says of the chart with its own values, and a Result for each set of values.
type Response struct {
	Lint    []string `json:"lint"`
	Results []Result `json:"results"`
}

// A Result is the YAML of all objects, or why there is none.
type Result struct {
	Objects string `json:"objects"`
	Error   string `json:"error"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var request Request
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	version, err := chartutil.ParseKubeVersion(request.KubeVersion)
	if err != nil {
		return fmt.Errorf("kube_version: %w", err)
	}
	loaded, err := loader.Load(request.Chart)
	if err != nil {
		return fmt.Errorf("load %s: %w", request.Chart, err)
	}
	response := Response{Lint: []string{}}
	for _, message := range lint.AllWithKubeVersion(request.Chart, nil, request.Namespace, version).Messages {
		response.Lint = append(response.Lint, message.Error())
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	release := chartutil.ReleaseOptions{Name: "switchyard", Namespace: request.Namespace, Revision: 1, IsInstall: true}
	for _, text := range request.Values {
		response.Results = append(response.Results, render(loaded, text, release, capabilities))
	}
	return json.NewEncoder(out).Encode(response)
}

func render(loaded *chart.Chart, text string, release chartutil.ReleaseOptions, capabilities *chartutil.Capabilities) Result {
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		return Result{Error: err.Error()}
	}
	all, err := chartutil.ToRenderValues(loaded, values, release, capabilities)
	if err != nil {
		return Result{Error: err.Error()}
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return Result{Error: err.Error()}
	}
	var objects strings.Builder
	for _, template := range loaded.Templates {
		name := path.Join(loaded.Name(), template.Name)
		if strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&objects, "---\n# Source: %s\n%s\n", name, files[name])
		}
	}
	return Result{Objects: objects.String()}
}
