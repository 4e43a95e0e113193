package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
)

// A component is one of the folders below k8s/components that operators choose among, with the test of the values that
// switches it on.
type component struct {
	name, test string
}

// components are in the order in which an overlay applies them: a later one changes what an earlier one added.
var components = []component{
	{"ingress", `.Values.components.ingress`},
	{"otel", `.Values.components.otel`},
	{"prometheus", `.Values.components.prometheus`},
	{"backlog", `(eq .Values.components.backlog "adapter")`},
	{"keda", `(eq .Values.components.backlog "keda")`},
	{"gateway-api", `.Values.components.gatewayApi`},
	{"mtls", `.Values.components.mtls`},
	{"signing-keys", `.Values.components.signingKeys`},
	{"spool-volumes", `.Values.components.spoolVolumes`},
}

// A switches value says which components are on, as bits in their order.
type switches uint

func (s switches) on(i int) bool { return s&(1<<i) != 0 }

// possible reports whether an overlay may have these components together: webhook-egress has one autoscaler.
func (s switches) possible() bool { return !s.on(3) || !s.on(4) }

// samples returns the combinations that say by which switches something comes and goes: all with at most one component on,
// and all with at most one off. They hold the four cases of each pair of components, which is as much as a condition has.
// The chart's tests compare further combinations.
func samples() (all []switches) {
	whole := switches(1<<len(components) - 1)
	for _, start := range []switches{whole &^ (1 << 4), whole &^ (1 << 3), 0} {
		for _, s := range append([]switches{start}, flips(start)...) {
			if s.possible() && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// flips returns the combinations that differ in one component.
func flips(s switches) (all []switches) {
	for i := range components {
		all = append(all, s^1<<i)
	}
	return all
}

// buildAll returns the objects of each combination.
func buildAll(ctx context.Context, folder, kustomize string, samples []switches) ([][]*yaml.Node, error) {
	builds := make([][]*yaml.Node, len(samples))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.NumCPU())
	for i, s := range samples {
		work.Go(func() (err error) {
			builds[i], err = build(ctx, folder, kustomize, s)
			return err
		})
	}
	return builds, work.Wait()
}

// build runs kustomize on an overlay of the base with some components.
func build(ctx context.Context, folder, kustomize string, s switches) ([]*yaml.Node, error) {
	dir, err := os.MkdirTemp("", "chart")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	folder, err = filepath.Rel(dir, folder) // kustomize takes other folders by relative paths only
	if err != nil {
		return nil, err
	}
	overlay := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: switchyard\nresources: [" + folder + "/base]\n"
	var chosen []string
	for i, c := range components {
		if s.on(i) {
			chosen = append(chosen, folder+"/components/"+c.name)
		}
	}
	overlay += "components: [" + strings.Join(chosen, ", ") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, kustomize, "build", dir)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kustomize build with %s: %w: %s", chosen, err, complaints.String())
	}
	return decode(text)
}

// decode returns the objects of a stream of YAML documents.
func decode(text []byte) (objects []*yaml.Node, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("kustomize's output: %w", err)
		}
		objects = append(objects, document.Content[0])
	}
}
