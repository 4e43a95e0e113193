// Package port chooses TCP ports on this machine for the local stack and checks which of the wanted ones are taken.
package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Loopback is the only address that the local stack binds by itself.
const Loopback = "127.0.0.1"

// Free ports are taken from below the range in which systems place outgoing
// connections (32768 and up), where the system may soon give a port that was free
// a moment ago to another process.
const (
	lowest  = 20000
	highest = 32000
)

// searched bounds how many ports after a wanted one are tried.
const searched = 100

// next is the port at which the next search for free ones begins. Processes that run at the same time begin at different
// ones.
var next = struct {
	sync.Mutex

	port int
}{port: lowest + os.Getpid()*searched%(highest-lowest)}

// Free returns n different ports of the loopback address on which no process listens. The ports of earlier calls of
// this process come again only after all others, since their owners may be stopped for a moment. They aren't reserved
// against other processes, so the caller should bind them soon.
func Free(ctx context.Context, n int) ([]int, error) {
	next.Lock()
	defer next.Unlock()
	ports := make([]int, 0, n)
	for range highest - lowest {
		if len(ports) == n {
			break
		}
		candidate := next.port
		next.port = lowest + (candidate+1-lowest)%(highest-lowest)
		if Available(ctx, At(candidate)) {
			ports = append(ports, candidate)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("found %d free ports between %d and %d, want %d", len(ports), lowest, highest, n)
	}
	return ports, nil
}

// From returns the wanted loopback port, or the next free one after it.
func From(ctx context.Context, wanted int) (int, error) {
	for candidate := wanted; candidate < wanted+searched; candidate++ {
		if Available(ctx, At(candidate)) {
			return candidate, nil
		}
	}
	return 0, fmt.Errorf("none of the ports %d to %d is free", wanted, wanted+searched-1)
}

// Available reports whether an address (host:port) can be listened on now.
func Available(ctx context.Context, address string) bool { return Check(ctx, address) == nil }

// Check returns nil when an address (host:port) can be listened on now, [ErrTaken]
// when it is already in use, and the system's error when it can't be listened on at all.
func Check(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return ErrTaken
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

// ErrTaken is the error of [Check] for an address that is already in use.
var ErrTaken = errors.New("taken")

// At returns the loopback address of a port.
func At(port int) string { return net.JoinHostPort(Loopback, strconv.Itoa(port)) }

// Dialable returns the address at which a client on this machine reaches a listen address: a wildcard host becomes
// the loopback address.
func Dialable(listen string) (string, error) {
	host, number, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("listen address %q: want host:port", listen)
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("listen address %q: %w", listen, errNumber)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = Loopback
	}
	return net.JoinHostPort(host, number), nil
}

var errNumber = errors.New("want a port from 1 to 65535")
