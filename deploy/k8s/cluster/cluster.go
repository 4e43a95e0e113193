// Package cluster is a stand-in for a Kubernetes cluster, for the test that runs the commands of
// deploy/examples/start/cluster.md on a machine that has none. It takes the lines of kubectl and Helm that the page has,
// and refuses all others.
//
// Objects are validated offline as an API server validates them. The containers of pods run as processes of the real
// programs, with the environment, arguments, Secrets, ConfigMaps and claims of the manifests: only the paths of mounts
// become folders, and the names of Services addresses of this machine. Probes decide what is ready, Services and the
// Ingress pass connections on by labels and rules, and Certificates become Secrets.
//
// It has no scheduler, no network policies, no limits of resources, no users of containers and no read-only file
// systems; autoscalers keep their bounds and measure nothing; mounted files don't follow a changed Secret; a container that
// ended is started again after shorter pauses, and a Job's in the same pod, whatever its policy.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/dev/stack"
)

// Options configures a Cluster.
type Options struct {
	Dir            string            // of its state
	Images         map[string]string // what can be pulled: the program of each image
	StorageClasses []string          // by their names; claims of others stay unbound
	IngressClass   string            // of the one controller; no class is the default

	// Programs that build, validate and render: kustomize, kubectl-validate, and .ci/helm.
	Kustomize, Validate, Helm string
}

// Cluster is a running stand-in.
type Cluster struct {
	options   Options
	authority *stack.Authority // of all Certificates
	group     *errgroup.Group
	stop      context.CancelFunc
	running   context.Context // of the pods, which outlive the call that made them
	ingress   net.Listener

	mu       sync.Mutex
	objects  map[id]*object
	pods     map[string]*pod              // by namespace/name
	services map[id]map[int]*serviceProxy // by port
	releases map[string][]id              // of Helm, by namespace/name
	settings map[string][]string          // names of settings that are addresses, by program and command
	made     int                          // pods that were made so far
}

// pause is the time between two looks at what has to be done.
const pause = 50 * time.Millisecond

// Start returns an empty cluster. Stop ends it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	for _, dir := range []string{"pods", "claims", "log"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	authority, err := stack.NewAuthority()
	if err != nil {
		return nil, err
	}
	ingress, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Cluster{
		options: o, authority: authority, group: &errgroup.Group{}, stop: stop, running: running, ingress: ingress,
		objects: make(map[id]*object), pods: make(map[string]*pod), services: make(map[id]map[int]*serviceProxy),
		releases: make(map[string][]id), settings: make(map[string][]string),
	}
	c.group.Go(func() error { return c.serveIngress(running) })
	c.group.Go(func() error { c.control(running); return nil })
	return c, nil
}

// Ingress returns the address at which the controller of ingresses takes HTTPS.
func (c *Cluster) Ingress() string { return c.ingress.Addr().String() }

// Stop ends all pods, as their grace allows, and everything else.
func (c *Cluster) Stop() error {
	c.stop()
	c.mu.Lock()
	var err error
	for _, ports := range c.services {
		for _, p := range ports {
			err = errors.Join(err, p.close())
		}
	}
	c.mu.Unlock()
	return errors.Join(err, c.group.Wait())
}

// Logs returns the folder of the containers' output.
func (c *Cluster) Logs() string { return filepath.Join(c.options.Dir, "log") }

// control does what the controllers of a cluster do until ctx ends.
func (c *Cluster) control(ctx context.Context) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.mu.Lock()
			c.reconcile()
			c.mu.Unlock()
		}
	}
}

// reconcile makes Secrets of Certificates, and pods of workloads. The caller holds the lock.
func (c *Cluster) reconcile() {
	for _, o := range c.ofKind("Certificate") {
		c.certify(o)
	}
	for _, p := range c.pods {
		owner := c.objects[p.owner]
		if p.gone() && (owner == nil || owner.Kind != "Job") {
			delete(c.pods, p.key())
		} else if owner == nil || owner.uid != p.uid {
			p.end()
		}
	}
	for _, o := range c.ofKind("Deployment") {
		c.deploy(o)
	}
	for _, o := range c.ofKind("StatefulSet") {
		c.keepStateful(o)
	}
	for _, o := range c.ofKind("Job") {
		if len(c.podsOf(o)) == 0 {
			c.startPod(o, o.Name+"-"+suffix(c.next()), digest(o.part("template")))
		}
	}
}

// next returns the number of a new pod or object.
func (c *Cluster) next() int {
	c.made++
	return c.made
}

func suffix(n int) string { return fmt.Sprintf("%05d", n) }

// await looks until done reports true, or fails for good; when ctx ends it returns the context's error.
func (c *Cluster) await(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		c.mu.Lock()
		ok, err := done()
		c.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}
