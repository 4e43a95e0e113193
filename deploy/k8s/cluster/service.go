package cluster

import (
	"cmp"
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// serviceSpec is the spec of a Service.
type serviceSpec struct {
	Selector map[string]string
	Ports    []servicePort
}

type servicePort struct {
	Name       string
	Port       int
	TargetPort string `yaml:"targetPort"`
}

func (o *object) service() serviceSpec {
	var of struct{ Spec serviceSpec }
	o.read(&of)
	return of.Spec
}

// serviceProxy passes connections to a port of a Service on to its pods, in turn.
type serviceProxy struct {
	listener net.Listener
	turn     atomic.Uint32
}

func (p *serviceProxy) address() string { return p.listener.Addr().String() }
func (p *serviceProxy) close() error    { return p.listener.Close() }

// serve opens the ports of a Service; other objects need nothing. The caller holds the lock.
func (c *Cluster) serve(ctx context.Context, o *object) error {
	if o.Kind != "Service" {
		return nil
	}
	if c.services[o.id] == nil {
		c.services[o.id] = make(map[int]*serviceProxy)
	}
	for _, of := range o.service().Ports {
		if c.services[o.id][of.Port] != nil {
			continue
		}
		listener, err := listen(ctx)
		if err != nil {
			return err
		}
		proxy := &serviceProxy{listener: listener}
		c.services[o.id][of.Port] = proxy
		c.group.Go(func() error { c.accept(proxy, o.id, of.Port); return nil })
	}
	return nil
}

// accept passes connections on until the listener closes.
func (c *Cluster) accept(proxy *serviceProxy, service id, number int) {
	var open errgroup.Group
	defer func() { _ = open.Wait() }()
	for {
		from, err := proxy.listener.Accept()
		if err != nil {
			return
		}
		open.Go(func() error {
			defer func() { _ = from.Close() }()
			endpoints := c.endpoints(service, number)
			if len(endpoints) == 0 {
				return nil
			}
			forward(c.running, from, endpoints[int(proxy.turn.Add(1))%len(endpoints)])
			return nil
		})
	}
}

// endpoints returns the addresses behind a port of a Service.
func (c *Cluster) endpoints(service id, number int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[service]
	if o == nil {
		return nil
	}
	return o.service().endpoints(number, slices.DeleteFunc(c.allPods(), func(p *pod) bool { return p.namespace != service.Namespace }))
}

// endpoints returns the addresses of those of some pods that are ready, and have the labels and the port that the Service
// wants.
func (s serviceSpec) endpoints(number int, pods []*pod) (all []string) {
	i := slices.IndexFunc(s.Ports, func(of servicePort) bool { return of.Port == number })
	if i < 0 {
		return nil
	}
	target := cmp.Or(s.Ports[i].TargetPort, strconv.Itoa(number))
	for _, p := range pods {
		address := p.ports[p.spec.Containers[0].port(target)]
		if p.isReady() && selects(s.Selector, p.labels) && address != "" {
			all = append(all, address)
		}
	}
	return all
}

// forward copies a connection to an address and back, until one of them closes or ctx ends.
func forward(ctx context.Context, from net.Conn, address string) {
	to, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = from.Close(); _ = to.Close() })
	defer stop()
	var both errgroup.Group
	for _, pair := range [][2]net.Conn{{to, from}, {from, to}} {
		both.Go(func() error {
			_, err := io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			return err
		})
	}
	_ = both.Wait()
}
