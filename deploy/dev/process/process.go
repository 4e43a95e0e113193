// Package process runs the programs of the local stack. Each has its own process group, so that a terminal's Ctrl-C
// reaches only the stack itself, writes its output to a log file, and is stopped within a bounded time.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec is a program to run.
type Spec struct {
	Name       string // the name used in messages
	Path       string // the program's file
	Args       []string
	Env        []string
	Dir        string
	Stdin      string              // its standard input
	Log        string              // the file to which its output is appended
	Credential *syscall.Credential // another user to run as; nil for the current one
	End        syscall.Signal      // the signal that ends it; 0 is SIGTERM
}

// Process is a program that can be started again after it ended. It is safe for
// concurrent use.
type Process struct {
	spec Spec

	mu      sync.Mutex
	current *processRun
}

// processRun is one run of a process. It ends when the program and its children have ended.
type processRun struct {
	cmd    *exec.Cmd
	from   int64 // size of the log when it began
	begun  time.Time
	ended  chan struct{}
	result error         // set before ended is closed
	lasted time.Duration // likewise
}

// orphanTime bounds the wait for children that outlive the program. Those of a
// killed Postgres take a moment, in which its data can't be opened again.
const orphanTime = 5 * time.Second

// Start runs a program.
func Start(spec Spec) (*Process, error) {
	p := &Process{spec: spec}
	if err := p.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Run runs a program to its end, or kills it when ctx ends first. An exit status
// other than 0 is an error that holds the last lines of the log.
func Run(ctx context.Context, spec Spec) error {
	p, err := Start(spec)
	if err != nil {
		return err
	}
	select {
	case <-p.Ended():
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s: %w", spec.Name, ctx.Err())
	}
	if result := p.Result(); result != nil {
		return fmt.Errorf("%s failed (%w)%s", spec.Name, result, p.logged())
	}
	return nil
}

// Name returns the name used in messages.
func (p *Process) Name() string { return p.spec.Name }

// Log returns the path of the log file.
func (p *Process) Log() string { return p.spec.Log }

// Start runs the program again after it ended.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && !p.current.hasEnded() {
		return fmt.Errorf("%s is running", p.spec.Name)
	}
	now, err := begin(p.spec)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.spec.Name, err)
	}
	p.current = now
	return nil
}

func begin(spec Spec) (*processRun, error) {
	output, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }() // the child has its own copy
	from, err := output.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	// A context would kill the program, but it is to be ended by a signal first.
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = output, output
	if spec.Stdin != "" {
		cmd.Stdin = strings.NewReader(spec.Stdin)
	}
	cmd.SysProcAttr = attributes(spec)
	// The program and all its children hold the write end of a pipe that none of them
	// writes to: the read end returns EOF when the last of them has ended.
	alive, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	cmd.ExtraFiles = []*os.File{held}
	if err := cmd.Start(); err != nil {
		_ = alive.Close()
		return nil, err
	}
	r := &processRun{cmd: cmd, from: from, begun: time.Now(), ended: make(chan struct{})}
	go r.wait(alive)
	return r, nil
}

func (r *processRun) wait(alive *os.File) {
	defer close(r.ended)
	defer func() { _ = alive.Close() }()
	r.result = r.cmd.Wait()
	r.lasted = time.Since(r.begun)
	if err := alive.SetReadDeadline(time.Now().Add(orphanTime)); err == nil {
		_, _ = alive.Read(make([]byte, 1))
	}
}

func (r *processRun) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

func (p *Process) lastRun() *processRun {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// PID returns the process id of the current or last run.
func (p *Process) PID() int { return p.lastRun().cmd.Process.Pid }

// Ended returns a channel that is closed when the current run ends. A later start makes a new channel.
func (p *Process) Ended() <-chan struct{} { return p.lastRun().ended }

// Running reports whether the program runs.
func (p *Process) Running() bool { return !p.lastRun().hasEnded() }

// Result returns how the last run ended: nil for exit status 0, and while it runs.
func (p *Process) Result() error {
	r := p.lastRun()
	if !r.hasEnded() {
		return nil
	}
	return r.result
}

// Lasted returns how long the last run took, 0 while it runs.
func (p *Process) Lasted() time.Duration {
	r := p.lastRun()
	if !r.hasEnded() {
		return 0
	}
	return r.lasted
}

// Stop sends the end signal to the program and waits for it; when ctx ends first, it kills the program. An exit
// status other than 0 is an error. Stopping a process that has already ended does nothing.
func (p *Process) Stop(ctx context.Context) error {
	r := p.lastRun()
	if r.hasEnded() {
		return nil
	}
	end := p.spec.End
	if end == 0 {
		end = syscall.SIGTERM
	}
	// Only the leader gets the signal: Postgres ends its children itself, in order.
	if err := r.cmd.Process.Signal(end); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.spec.Name, err)
	}
	select {
	case <-r.ended:
	case <-ctx.Done():
		r.kill()
		return fmt.Errorf("%s did not end in time and was killed", p.spec.Name)
	}
	if r.result != nil {
		return fmt.Errorf("%s ended with %w%s", p.spec.Name, r.result, p.logged())
	}
	return nil
}

// Kill ends the program and the children in its process group at once (SIGKILL)
// and waits until they are gone.
func (p *Process) Kill() { p.lastRun().kill() }

func (r *processRun) kill() {
	if !r.hasEnded() {
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
	<-r.ended
}

const pollInterval = 25 * time.Millisecond

// Await calls ready until it returns nil. When the program ends or when timeout or ctx expires first, Await returns
// an error that holds the last lines of the log.
func (p *Process) Await(ctx context.Context, timeout time.Duration, ready func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	r := p.lastRun()
	last := errors.New("not tried yet")
	for {
		if r.hasEnded() {
			return fmt.Errorf("%s ended before it was ready (%s)%s", p.spec.Name, Describe(r.result), p.logged())
		}
		err := ready(waiting)
		if err == nil {
			return nil
		}
		if waiting.Err() == nil {
			last = err
		}
		select {
		case <-poll.C:
		case <-r.ended:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s was not ready within %s (%w)%s", p.spec.Name, timeout, last, p.logged())
		}
	}
}

// Describe returns how a program ended as text.
func Describe(result error) string {
	if result == nil {
		return "exit status 0"
	}
	return result.Error()
}

const shownLines = 12

func (p *Process) logged() string {
	tail := p.Tail(shownLines)
	if tail == "" {
		return "; it wrote nothing to " + p.spec.Log
	}
	return "; the end of " + shorten(p.spec.Log) + ":\n" + tail
}

// Tail returns at most the last n lines that the program wrote in its current or last run.
func (p *Process) Tail(n int) string {
	text, err := readEnd(p.spec.Log, p.lastRun().from)
	if err != nil {
		return ""
	}
	return lastLines(text, n)
}

const tailBytes = 16 << 10

func readEnd(path string, from int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from = max(from, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	return string(text), err
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// shorten returns a path below the working directory relative to it.
func shorten(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(short) {
		return short
	}
	return path
}
