package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// The annotations of hooks.
const (
	hookAnnotation = "helm.sh/hook"
	hookWeight     = "helm.sh/hook-weight"
	hookDeletion   = "helm.sh/hook-delete-policy"
)

// Helm does what a line of Helm says: install or upgrade a release. The chart is rendered by Helm's library. Hooks before an install and an upgrade run first, by their weights, and a Job that fails ends it there.
func (c *Cluster) Helm(ctx context.Context, r Request, out io.Writer) error {
	k := &call{Cluster: c, Request: r, flags: map[string]string{"--namespace": "default", "--timeout": "5m"}, out: out}
	args := r.Args
	install := slices.Index(args, "--install")
	if install >= 0 {
		args = slices.Delete(slices.Clone(args), install, install+1)
	}
	given, err := k.read(args)
	if err != nil {
		return err
	}
	for _, flag := range given {
		if flag != "--namespace" && flag != "--values" && flag != "--timeout" {
			return fmt.Errorf("Error: unknown flag here: %s", flag)
		}
	}
	if install < 0 || len(k.words) != 3 || k.words[0] != "upgrade" {
		return fmt.Errorf("Error: this cluster has no helm %s", strings.Join(r.Args, " "))
	}
	return k.upgrade(ctx, k.words[1], k.words[2])
}

func (k *call) upgrade(ctx context.Context, release, chart string) error {
	text, err := k.render(ctx, chart)
	if err != nil {
		return err
	}
	all, err := parse(text, k.namespace())
	if err != nil {
		return err
	}
	if err := k.validate(ctx, all); err != nil {
		return err
	}
	hooks := slices.DeleteFunc(slices.Clone(all), func(o *object) bool { return !strings.Contains(o.Annotations[hookAnnotation], "pre-upgrade") })
	slices.SortStableFunc(hooks, func(a, b *object) int { return cmp.Compare(weight(a), weight(b)) })
	for _, o := range hooks {
		if err := k.hook(ctx, o); err != nil {
			return fmt.Errorf("Error: UPGRADE FAILED: pre-upgrade hooks failed: %w", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []id
	for _, o := range all {
		if slices.Contains(hooks, o) {
			continue
		}
		if _, err := k.admit(ctx, o); err != nil {
			return err
		}
		ids = append(ids, o.id)
	}
	key := k.namespace() + "/" + release
	gone := slices.DeleteFunc(k.releases[key], func(of id) bool { return slices.Contains(ids, of) })
	k.releases[key] = ids
	printLine(k.out, "Release %q has been upgraded. Happy Helming!", release)
	return k.remove(gone...)
}

// render returns the objects of a chart with the call's values.
func (k *call) render(ctx context.Context, chart string) ([]byte, error) {
	values, err := os.ReadFile(k.path(k.flags["--values"]))
	if err != nil {
		return nil, fmt.Errorf("Error: %w", err)
	}
	request, err := json.Marshal(map[string]any{
		"chart": k.path(chart), "namespace": k.namespace(), "kube_version": kubernetes + ".0", "values": []string{string(values)},
	})
	if err != nil {
		return nil, err
	}
	run := exec.CommandContext(ctx, k.options.Helm)
	run.Stdin = bytes.NewReader(request)
	out, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("Error: %w", err)
	}
	var response struct {
		Results []struct{ Objects, Error string }
	}
	if err := json.Unmarshal(out, &response); err != nil || len(response.Results) != 1 {
		return nil, errors.Join(err, fmt.Errorf("helm gave %d results", len(response.Results)))
	}
	if failed := response.Results[0].Error; failed != "" {
		return nil, errors.New("Error: " + failed)
	}
	return []byte(response.Results[0].Objects), nil
}

// hook makes an object before the release, in place of the one of the last time, and waits for a Job.
func (k *call) hook(ctx context.Context, o *object) error {
	if o.Annotations[hookDeletion] != "before-hook-creation" {
		return fmt.Errorf("%s: a hook with another deletion policy than before-hook-creation, which this cluster has not", o.Name)
	}
	k.mu.Lock()
	err := k.remove(o.id)
	if err == nil {
		_, err = k.admit(ctx, o)
	}
	k.mu.Unlock()
	if err != nil || o.Kind != "Job" {
		return err
	}
	ctx, cancel, err := k.timeout(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return k.complete(ctx, o)
}

func weight(o *object) int {
	n, _ := strconv.Atoi(o.Annotations[hookWeight]) // 0 where there is none
	return n
}
