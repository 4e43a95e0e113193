package upstream

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
)

// Command is a local server: a program that speaks the protocol over its standard input and output.
type Command struct {
	// Argv is the program, by its absolute path, with its arguments.
	Argv []string
	// Env are the names of the gateway's variables that the program gets; it gets no other but PATH.
	Env []string
	// Dir is its working directory; empty for the root.
	Dir string
}

const (
	// maxProcesses bounds the local commands that run at a time.
	maxProcesses = 32
	// shortLife is the life of a process that counts as a failure to start; each in a row doubles the pause before the
	// next one, up to mostPause.
	shortLife  = 10 * time.Second
	firstPause = 100 * time.Millisecond
	mostPause  = 30 * time.Second
	// endTime is for how long a process may go on once its input has ended.
	endTime = 2 * time.Second
	// pipeProbeTime bounds the question which version a local server speaks: legacy ones may leave it unanswered.
	pipeProbeTime = 5 * time.Second
)

// searchPath is the PATH of local commands.
const searchPath = "PATH=/usr/local/bin:/usr/bin:/bin"

// commands owns the processes of local servers, until run ends.
type commands struct {
	find func(name string) (Command, bool)
	log  *slog.Logger

	mu      sync.Mutex
	closed  bool
	group   errgroup.Group
	running map[*process]bool
	count   int
	// failed has the failures in a row of the commands that don't stay up.
	failed map[string]failures
}

// failures are those in a row of one command, and when it may be started again.
type failures struct {
	row   int
	until time.Time
}

func newCommands(find func(name string) (Command, bool), log *slog.Logger) *commands {
	return &commands{find: find, log: log, running: make(map[*process]bool), failed: make(map[string]failures)}
}

// run owns the processes until ctx ends, and ends them then.
func (c *commands) run(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.closed = true
	for p := range c.running {
		p.stop()
	}
	c.mu.Unlock()
	return c.group.Wait()
}

// Errors of local commands.
var (
	errNoCommand = errors.New("the operator allows no local command of this name")
	errArgv      = errors.New("argv: must begin with an absolute path")
	errClosed    = errors.New("the gateway is stopping")
)

func unavailable(err error) *Error {
	return &Error{Cause: CauseCommand, Text: "the local command can't be run", Err: err}
}

// start starts a command.
func (c *commands) start(name string, changed func()) (*process, error) {
	command, ok := Command{}, false
	if c.find != nil {
		command, ok = c.find(name)
	}
	switch {
	case !ok:
		return nil, unavailable(errNoCommand)
	case len(command.Argv) == 0 || !filepath.IsAbs(command.Argv[0]):
		return nil, unavailable(errArgv)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch pause := c.failed[name].until.Sub(now); {
	case c.closed:
		return nil, unavailable(errClosed)
	case pause > 0:
		e := unavailable(errors.New("the local command has ended soon after its last start"))
		e.RetryAfter = pause
		return nil, e
	case len(c.running) >= maxProcesses:
		return nil, &Error{Cause: CauseBusy, Text: "too many local commands run"}
	}
	p, err := spawn(command, changed, c.log.With(slog.String("command", name)))
	if err != nil {
		c.fail(name, now)
		return nil, unavailable(err)
	}
	c.count++
	p.id = strconv.Itoa(c.count)
	c.running[p] = true
	c.group.Go(panics.Guard(p.read))
	c.group.Go(panics.Guard(p.readErrors))
	c.group.Go(panics.Guard(func() error {
		p.wait()
		c.ended(name, p, now)
		return nil
	}))
	return p, nil
}

// ended takes note of the end of a process.
func (c *commands) ended(name string, p *process, started time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, p)
	if now := time.Now(); p.stopped() || now.Sub(started) >= shortLife {
		delete(c.failed, name)
	} else {
		c.fail(name, now)
	}
}

// fail counts a failure. The caller holds mu.
func (c *commands) fail(name string, now time.Time) {
	row := c.failed[name].row + 1
	c.failed[name] = failures{row, now.Add(pauseOf(row))}
}

// pauseOf returns the pause behind failures in a row.
func pauseOf(row int) time.Duration {
	return min(firstPause<<min(row-1, 10), mostPause)
}

// environment returns what a command gets of the gateway's environment.
func environment(names []string) []string {
	all := []string{searchPath}
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+value)
		}
	}
	return all
}
