package mcp

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/panics"
)

const (
	// beginTime bounds the wait for servers to acknowledge what is followed.
	beginTime = 5 * time.Second
	// followEach is the least time between two notices of resources: a server that sends more waits.
	followEach = 50 * time.Millisecond
)

// follows are the streams of servers that a caller's stream follows.
type follows struct {
	tools  Tools
	asker  *toolcall.Asker
	server string
	// updated says that a resource has changed.
	updated func(uri string)
	group   errgroup.Group
	// opened is closed once the caller's stream has begun; nothing is said before.
	opened chan struct{}
}

// begin begins to follow resources, and returns those of which there will be notices. Servers that don't acknowledge them
// in time are left out.
func (f *follows) begin(ctx context.Context, uris []string) []string {
	f.opened = make(chan struct{})
	if len(uris) == 0 {
		return nil
	}
	servers, err := f.tools.Follows(ctx, f.asker, f.server, uris)
	if err != nil {
		return nil
	}
	begun := make(chan []string, len(servers))
	var known known
	for i := range servers {
		f.group.Go(panics.Guard(func() error {
			servers[i].Run(ctx, func(uris []string) { begun <- uris }, func(uri string) {
				if f.rest(ctx) && known.has(uri) {
					f.updated(uri)
				}
			})
			return nil
		}))
	}
	return known.await(ctx, len(servers), begun)
}

// open lets notices pass.
func (f *follows) open() { close(f.opened) }

// rest waits until the next notice may pass. It reports false when the stream ends.
func (f *follows) rest(ctx context.Context) bool {
	select {
	case <-f.opened:
	case <-ctx.Done():
		return false
	}
	timer := time.NewTimer(followEach)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// wait returns once nothing is followed any more.
func (f *follows) wait() { _ = f.group.Wait() }

// known are the resources, or the tasks, that were acknowledged to the caller.
type known struct {
	mu    sync.Mutex
	names []string
}

func (k *known) add(names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names = append(k.names, names...)
}

// await adds what several servers acknowledge in time, and returns it all; nil where the stream ends.
func (k *known) await(ctx context.Context, servers int, begun <-chan []string) []string {
	late := time.NewTimer(beginTime)
	defer late.Stop()
	for range servers {
		select {
		case names := <-begun:
			k.add(names)
		case <-late.C:
			return k.all()
		case <-ctx.Done():
			return nil
		}
	}
	return k.all()
}

// all returns them in order.
func (k *known) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(slices.Values(k.names))
}

// is reports whether a name is one of them.
func (k *known) is(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.names, name)
}

// has reports whether a URI is one of them, or of a part of one.
func (k *known) has(uri string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return upstream.Covers(k.names, uri)
}
