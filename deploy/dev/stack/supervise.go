package stack

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/deploy/dev/process"
)

// Reporter receives what becomes of members that end by themselves, one call at a time.
type Reporter interface {
	// Ended receives an end, and the pause after which the member is started again. again reports whether the member had
	// ended shortly before, too.
	Ended(exit Exit, pause time.Duration, again bool)
	// Ready receives that a member is ready again, and how long that took from its start. With an error it runs, but isn't
	// ready.
	Ready(name string, took time.Duration, err error)
}

// Supervise starts services and the fakes again when they end by themselves, until ctx ends. The pause before each start
// grows while a member doesn't keep running; see [process.Backoff]. The end of a store ends Supervise with an error,
// because its data may be the reason and no service works without it.
func (s *Stack) Supervise(ctx context.Context, r Reporter) error {
	group, ctx := errgroup.WithContext(ctx)
	r = &serialReporter{Reporter: r}
	group.Go(func() error {
		pauses := make(map[string]time.Duration)
		for {
			select {
			case <-ctx.Done():
				return nil
			case exit := <-s.exits:
				m, err := s.find(exit.Name)
				if err != nil {
					return err
				}
				if !m.supervised() {
					return fmt.Errorf("%s ended by itself (%s), and no service works without it; its log is %s and ends with:\n%s", exit.Name, exit.How(), exit.Log, exit.Tail)
				}
				pause, again := process.Backoff(pauses[exit.Name], exit.Lasted)
				pauses[exit.Name] = pause
				r.Ended(exit, pause, again)
				group.Go(func() error {
					s.revive(ctx, m, pause, r)
					return nil
				})
			}
		}
	})
	return group.Wait()
}

// supervised reports whether Supervise starts the member again: it is a service or the fakes.
func (m *memberProcess) supervised() bool { return m.service != "" || m.Name() == Fakes }

// revive starts a member after a pause and waits until it is ready. It returns when ctx ends, and when the member ends
// again, which is reported.
func (s *Stack) revive(ctx context.Context, m *memberProcess, pause time.Duration, r Reporter) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	begun := time.Now()
	if err := m.Start(); err != nil {
		s.report(Exit{Name: m.Name(), Result: err, Log: m.Log()})
		return
	}
	s.observe(m)
	err := m.await(ctx)
	if err == nil || ctx.Err() == nil && m.Running() {
		r.Ready(m.Name(), time.Since(begun), err)
	}
}

// Killed reports whether a signal ended the member.
func (e Exit) Killed() bool {
	exit, ok := errors.AsType[*exec.ExitError](e.Result)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// serialReporter passes on one call at a time.
type serialReporter struct {
	Reporter

	mu sync.Mutex
}

func (r *serialReporter) Ended(exit Exit, pause time.Duration, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Reporter.Ended(exit, pause, again)
}

func (r *serialReporter) Ready(name string, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Reporter.Ready(name, took, err)
}
