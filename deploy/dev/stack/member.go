package stack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/dev/process"
)

const (
	readyTimeout = 60 * time.Second
	probeTimeout = 5 * time.Second
	maxExits     = 64
)

// memberProcess is a process of the stack.
type memberProcess struct {
	*process.Process

	service Service // "" for the stores and the fakes
	ready   func(context.Context) error

	// deliberate holds whether the end of the current run is intended. Each run has its
	// own flag, so that the next run doesn't make the end of this one look accidental.
	deliberate atomic.Pointer[atomic.Bool]
}

// expectEnd keeps the coming end of the current run out of [Stack.Exits].
func (m *memberProcess) expectEnd() { m.deliberate.Load().Store(true) }

func (m *memberProcess) await(ctx context.Context) error {
	return m.Await(ctx, readyTimeout, m.ready)
}

// Exit is the end of a member that wasn't stopped on purpose.
type Exit struct {
	Name   string
	Result error  // as of os/exec, or why it did not start; nil is exit status 0
	Log    string // its log file
	Tail   string // the last lines of it
	Lasted time.Duration
}

// Exits returns the channel of members that end by themselves. The others keep running. [Stack.Supervise] reads it.
func (s *Stack) Exits() <-chan Exit { return s.exits }

func (s *Stack) start(spec process.Spec, service Service, ready func(context.Context) error) (*memberProcess, error) {
	p, err := process.Start(spec)
	if err != nil {
		return nil, err
	}
	m := &memberProcess{Process: p, service: service, ready: ready}
	s.watch(m)
	return m, nil
}

const tailLines = 12

// watch adds a running process to the stack's members.
func (s *Stack) watch(m *memberProcess) {
	s.members = append(s.members, m)
	s.observe(m)
}

// observe reports the end of a run to [Stack.Exits]. Its goroutine ends with the run.
func (s *Stack) observe(m *memberProcess) {
	ended, deliberate := m.Ended(), &atomic.Bool{}
	m.deliberate.Store(deliberate)
	go func() {
		<-ended
		if deliberate.Load() {
			return
		}
		s.report(Exit{m.Name(), m.Result(), m.Log(), m.Tail(tailLines), m.Lasted()})
	}()
}

func (s *Stack) report(exit Exit) {
	select {
	case s.exits <- exit:
	default: // the buffer is full, because the caller doesn't read it
	}
}

func (s *Stack) find(name string) (*memberProcess, error) {
	for _, m := range s.members {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("the stack has no process %q", name)
}

// PID returns the process id of a running member.
func (s *Stack) PID(name string) (int, error) {
	m, err := s.find(name)
	if err != nil {
		return 0, err
	}
	return m.PID(), nil
}

// Kill ends a member at once (SIGKILL) and returns when it has ended. Members are the services, their further
// replicas ("gateway-2"), Fakes, and Postgres and Redis where the stack runs them as processes.
func (s *Stack) Kill(name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	m.expectEnd()
	m.Kill()
	return nil
}

// Terminate sends a member SIGTERM, as an orchestrator would, and waits for its end. An exit status other than 0 is
// an error.
func (s *Stack) Terminate(ctx context.Context, name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	m.expectEnd()
	return m.Stop(ctx)
}

// Restart starts a member again, stopping it first when it runs, and returns when it is ready.
func (s *Stack) Restart(ctx context.Context, name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	m.expectEnd()
	if err := m.Stop(ctx); err != nil {
		return err
	}
	if err := m.Start(); err != nil {
		return err
	}
	s.observe(m)
	return m.await(ctx)
}

func (s *Stack) stopMembers(ctx context.Context, which func(*memberProcess) bool) error {
	ctx, cancel := context.WithTimeout(ctx, stepGrace)
	defer cancel()
	failed := make([]error, len(s.members))
	var group errgroup.Group
	for i, m := range s.members {
		if which(m) {
			group.Go(func() error {
				failed[i] = m.Stop(ctx)
				return nil
			})
		}
	}
	_ = group.Wait() // each error is in failed: one must not hide another
	return errors.Join(failed...)
}

// healthy returns a check that succeeds once a service reports that it is ready for requests. Like other probes, it
// presents no certificate.
func healthy(url string, authority *Authority) func(context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true} // no idle connection stays behind
	if authority != nil {
		roots := x509.NewCertPool()
		roots.AddCert(authority.certificate)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Timeout: probeTimeout, Transport: transport}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health/ready", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s/health/ready answered %s", url, answer.Status)
		}
		return nil
	}
}

// fakesListen returns nil once every fake accepts connections.
func (s *Stack) fakesListen(ctx context.Context) error {
	var dialer net.Dialer
	for member, faces := range s.addresses {
		if !strings.HasPrefix(member, Fakes+" ") {
			continue
		}
		conn, err := dialer.DialContext(ctx, "tcp", faces[faceHTTP])
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
	return nil
}
