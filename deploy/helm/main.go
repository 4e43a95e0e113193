// Command helm writes the Helm chart of the cluster's manifests, so that both are one source: it builds the kustomize base
// with its components switched on and off, finds by which switch each line comes and goes, and puts values in place of what
// operators change. `make chart` runs it; its output is committed, and no template is edited by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, "deploy", os.Getenv("KUSTOMIZE"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

// run writes the chart below dir, the folder deploy of the repository.
func run(ctx context.Context, dir, kustomize string) error {
	files, err := generate(ctx, filepath.Join(dir, "k8s"), kustomize)
	if err != nil {
		return err
	}
	chart := filepath.Join(dir, "helm", "switchyard")
	old, err := filepath.Glob(filepath.Join(chart, "templates", "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(chart, filepath.FromSlash(name)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the chart's generated files, by path in the chart. The manifests are those of the folder.
func generate(ctx context.Context, folder, kustomize string) (map[string][]byte, error) {
	if kustomize == "" {
		return nil, errors.New("KUSTOMIZE names no program: run `make chart`")
	}
	samples := samples()
	builds, err := buildAll(ctx, folder, kustomize, samples)
	if err != nil {
		return nil, err
	}
	objects, err := mergeObjects(builds, samples)
	if err != nil {
		return nil, err
	}
	values := newValues()
	for _, o := range objects {
		values.put(o)
	}
	return files(objects, values)
}
