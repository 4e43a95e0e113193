package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"switchyard.dev/deploy/dev/process"
)

// pod is a pod of a workload. Its fields are the cluster's, behind its lock, but for what is atomic.
type pod struct {
	owner           id
	uid             int // of its owner
	namespace, name string
	hash            string // of its template
	labels          map[string]string
	spec            podSpec
	backoffLimit    int
	claims          map[string]string // folders of volumes that outlive the pod
	unbound         string            // why a claim has no volume
	dir             string

	// What it runs with, once it was started.
	env   []string
	ports map[int]string // address of each of its ports
	// numbers are the ports on this machine that it listens on. A container that is started again gets the same ones unless
	// another process has taken one meanwhile: in Kubernetes a pod keeps its address, too.
	numbers []int

	status   string // kubelet's words, while it does not run
	restarts int
	result   string // of a Job's pod that has ended: Complete or Failed
	cancel   context.CancelFunc
	stopping bool
	ready    atomic.Bool
	ended    atomic.Bool
}

func (p *pod) key() string { return p.namespace + "/" + p.name }

// gone reports whether the pod has ended for good.
func (p *pod) gone() bool { return p.ended.Load() }

// isReady reports whether the pod gets calls.
func (p *pod) isReady() bool { return p.ready.Load() && !p.stopping }

// end has the pod end after its grace.
func (p *pod) end() {
	p.stopping = true
	p.cancel()
}

// startPod makes a pod of a workload.
func (c *Cluster) startPod(o *object, name, hash string) {
	spec := o.workload()
	ctx, cancel := context.WithCancel(c.running)
	p := &pod{
		owner: o.id, uid: o.uid, namespace: o.Namespace, name: name, hash: hash, labels: spec.Template.Metadata.Labels,
		spec: spec.Template.Spec, backoffLimit: spec.BackoffLimit, cancel: cancel, claims: make(map[string]string),
		dir: filepath.Join(c.options.Dir, "pods", fmt.Sprint(name, "-", c.next())), status: "ContainerCreating",
	}
	for _, claim := range spec.VolumeClaimTemplates {
		p.claims[claim.Metadata.Name] = filepath.Join(c.claims(o.Namespace), claim.Metadata.Name+"-"+name)
		if class := claim.Spec.StorageClassName; !slices.Contains(c.options.StorageClasses, class) {
			p.unbound = fmt.Sprintf("pod has unbound immediate PersistentVolumeClaims: storageclass.storage.k8s.io %q not found", class)
		}
	}
	c.pods[p.key()] = p
	c.group.Go(func() error {
		defer p.ended.Store(true)
		defer cancel()
		c.keep(ctx, p)
		return os.RemoveAll(p.dir)
	})
}

// podsOf returns the pods of a workload in the order of their names.
func (c *Cluster) podsOf(o *object) []*pod {
	return slices.DeleteFunc(c.allPods(), func(p *pod) bool { return p.owner != o.id || p.uid != o.uid })
}

// allPods returns all pods in the order of their names.
func (c *Cluster) allPods() (all []*pod) {
	for _, p := range c.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return all
}

// keep runs the pod's container, and starts it again as its policy says, until ctx ends.
func (c *Cluster) keep(ctx context.Context, p *pod) {
	var wait time.Duration
	for ctx.Err() == nil {
		spec, err := c.prepare(p)
		var run *process.Process
		if err == nil {
			run, err = process.Start(spec)
		}
		if err != nil {
			c.say(p, err.Error())
			sleep(ctx, 2*pause)
			continue
		}
		c.say(p, "Running")
		c.watch(ctx, p, run)
		p.ready.Store(false)
		if ctx.Err() != nil {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.spec.grace())
			_ = run.Stop(stopping) // what it says is in its log
			cancel()
			return
		}
		if c.finished(p, run) {
			return
		}
		wait, _ = process.Backoff(wait, run.Lasted())
		sleep(ctx, wait)
	}
}

// finished records the end of a container, and reports whether it is not started again.
func (c *Cluster) finished(p *pod, run *process.Process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run.Result() != nil || !p.spec.ends() {
		p.restarts++
	}
	p.status = fmt.Sprintf("Back-off restarting failed container %s: %v\n%s", p.spec.Containers[0].Name, run.Result(), run.Tail(3))
	switch {
	case !p.spec.ends():
		return false
	case run.Result() == nil:
		p.result, p.status = "Complete", "Completed"
	case p.restarts > p.backoffLimit:
		p.result = "Failed"
	}
	return p.result != ""
}

func (c *Cluster) say(p *pod, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.status = status
}

// prepare returns the process of the pod's container; an error is in kubelet's words.
func (c *Cluster) prepare(p *pod) (process.Spec, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p.spec.Containers) != 1 || len(p.spec.InitContainers) > 0 {
		return process.Spec{}, errors.New("this cluster runs pods of one container")
	}
	if name := p.spec.ServiceAccountName; name != "" && c.objects[id{"ServiceAccount", p.namespace, name}] == nil {
		return process.Spec{}, fmt.Errorf("pods %q is forbidden: error looking up service account %s/%s: serviceaccount %q not found", p.name, p.namespace, name, name)
	}
	if p.unbound != "" {
		return process.Spec{}, errors.New(p.unbound)
	}
	of := p.spec.Containers[0]
	program, _, err := c.program(of)
	if err != nil {
		return process.Spec{}, err
	}
	paths, err := c.mount(p)
	if err != nil {
		return process.Spec{}, err
	}
	for _, folder := range append(slices.Collect(maps.Values(p.claims)), p.dir) {
		if err := makeDir(folder); err != nil {
			return process.Spec{}, err
		}
	}
	if err := p.shareClaims(); err != nil {
		return process.Spec{}, err
	}
	if p.env, err = c.environment(p, program, paths); err != nil {
		return process.Spec{}, err
	}
	args := of.Args
	if len(of.Command) > 0 {
		args = slices.Concat(of.Command[1:], of.Args)
	}
	return process.Spec{Name: p.name, Path: program, Args: args, Env: p.env, Dir: p.dir, Log: filepath.Join(c.Logs(), p.name+".log")}, nil
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
