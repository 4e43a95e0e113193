package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// find returns the workload that a word like deployment/notify names.
func (k *call) find(word string) (*object, error) {
	kind, name, _ := strings.Cut(word, "/")
	long, known := map[string]string{
		"deploy": "Deployment", "deployment": "Deployment", "statefulset": "StatefulSet", "sts": "StatefulSet", "job": "Job",
	}[kind]
	if !known {
		return nil, fmt.Errorf("error: the server doesn't have a resource type %q here", kind)
	}
	o := k.objects[id{long, k.namespace(), name}]
	if o == nil {
		return nil, fmt.Errorf("Error from server (NotFound): %s %q not found", strings.ToLower(long)+"s", name)
	}
	return o, nil
}

// one returns the workload that the call's only word names.
func (k *call) one() (*object, error) {
	if len(k.words) != 1 {
		return nil, errors.New("error: want one kind/name here")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.find(k.words[0])
}

// wait waits for jobs. A job that has failed ends it at once, where kubectl would wait on.
func (k *call) wait(ctx context.Context) error {
	if _, all := k.flags["--all"]; !all || len(k.words) != 1 || k.words[0] != "job" || k.flags["--for"] != "condition=complete" {
		return errors.New("error: kubectl wait: want --for=condition=complete job --all here")
	}
	ctx, cancel, err := k.timeout(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	k.mu.Lock()
	jobs := slices.DeleteFunc(k.ofKind("Job"), func(o *object) bool { return o.Namespace != k.namespace() })
	k.mu.Unlock()
	if len(jobs) == 0 {
		return errors.New("error: no matching resources found")
	}
	for _, o := range jobs {
		if err := k.complete(ctx, o); err != nil {
			return err
		}
		printLine(k.out, "%s condition met", o.resource())
	}
	return nil
}

// complete waits for a Job.
func (c *Cluster) complete(ctx context.Context, o *object) error {
	return c.explain(o, "jobs/"+o.Name, c.await(ctx, func() (bool, error) {
		for _, p := range c.podsOf(o) {
			if p.result == "Failed" {
				return false, fmt.Errorf("error: %s has failed: %s", o.resource(), p.status)
			}
			if p.result != "" {
				return true, nil
			}
		}
		return false, nil
	}))
}

// explain adds what the pods of a workload wait for to the end of a wait.
func (c *Cluster) explain(o *object, name string, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []error{errors.New("error: timed out waiting for the condition on " + name)}
	for _, p := range c.podsOf(o) {
		if !p.isReady() {
			all = append(all, fmt.Errorf("events of %s: %s", p.name, p.status))
		}
	}
	return errors.Join(all...)
}

func (k *call) rolloutStatus(ctx context.Context) error {
	ctx, cancel, err := k.timeout(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	o, err := k.one()
	if err != nil {
		return err
	}
	err = k.await(ctx, func() (bool, error) {
		now := k.objects[o.id]
		if now == nil {
			return false, fmt.Errorf("error: %s was deleted", k.words[0])
		}
		s, _ := k.state(now)
		return s.done(), nil
	})
	if err != nil {
		return k.explain(o, o.Kind+"/"+o.Name, err)
	}
	printLine(k.out, "%s %q successfully rolled out", strings.ToLower(o.Kind), o.Name)
	return nil
}

func (k *call) scale(context.Context) error {
	o, err := k.one()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(k.flags["--replicas"])
	if err != nil || n < 1 {
		return errors.New("error: --replicas: want a number from 1 here")
	}
	k.mu.Lock()
	o.replicas = n
	k.mu.Unlock()
	printLine(k.out, "%s scaled", o.resource())
	return nil
}

// pod returns a pod of a workload that is ready.
func (k *call) pod(word string) (*pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o, err := k.find(word)
	if err != nil {
		return nil, err
	}
	for _, p := range k.podsOf(o) {
		if p.isReady() {
			return p, nil
		}
	}
	return nil, fmt.Errorf("error: no pod of %s is ready", word)
}

func (k *call) exec(ctx context.Context) error {
	if len(k.words) != 1 || len(k.rest) == 0 {
		return errors.New("error: kubectl exec: want kind/name -- command here")
	}
	p, err := k.pod(k.words[0])
	if err != nil {
		return err
	}
	program, path, err := k.program(p.spec.Containers[0])
	if err != nil {
		return err
	}
	if k.rest[0] != path {
		return fmt.Errorf("error: exec: %q: stat %s: no such file or directory", k.rest[0], k.rest[0])
	}
	run := exec.CommandContext(ctx, program, k.rest[1:]...)
	k.mu.Lock()
	run.Env, run.Dir, run.Stdout = p.env, p.dir, k.out
	k.mu.Unlock()
	var said strings.Builder
	run.Stderr = &said
	if err := run.Run(); err != nil {
		return fmt.Errorf("%scommand terminated with exit code %d", said.String(), run.ProcessState.ExitCode())
	}
	return nil
}

// portForward passes connections to a port of a Service on to one of its pods, until the caller ends.
func (k *call) portForward(ctx context.Context) error {
	if len(k.words) != 2 || !strings.HasPrefix(k.words[0], "service/") {
		return errors.New("error: kubectl port-forward: want service/name and ports here")
	}
	local, remote, _ := strings.Cut(k.words[1], ":")
	number, err := strconv.Atoi(remote)
	if err != nil {
		return fmt.Errorf("error: invalid port %q", remote)
	}
	endpoints := k.endpoints(id{"Service", k.namespace(), strings.TrimPrefix(k.words[0], "service/")}, number)
	if len(endpoints) == 0 {
		return fmt.Errorf("error: no pod behind port %d of %s is ready", number, k.words[0])
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+local)
	if err != nil {
		return fmt.Errorf("error: unable to listen on any of the requested ports: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	printLine(k.out, "Forwarding from %s -> %s", listener.Addr(), remote)
	var open errgroup.Group
	for {
		from, err := listener.Accept()
		if err != nil {
			return open.Wait()
		}
		open.Go(func() error {
			defer func() { _ = from.Close() }()
			forward(ctx, from, endpoints[0])
			return nil
		})
	}
}
