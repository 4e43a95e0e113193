//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/proc"
)

const (
	// memoryBound is what a service may hold under attack: what its README asks for as
	// a limit.
	memoryBound = 512 << 20
	// memoryCap ends a process that goes far beyond, so that the machine survives: of
	// address space, of which Go reserves a gigabyte and more from the start.
	memoryCap  = 4 << 30
	sampleEach = 50 * time.Millisecond
)

// guard watches that the processes of the services stay the same, and what memory
// they hold.
type guard struct {
	*loadGenerator

	harness *harness

	checking sync.Mutex

	mu       sync.Mutex
	runs     map[string]processRun
	peak     map[string]int64 // of the run, in bytes
	reported map[string]int64 // what of it was complained about
}

// processRun is one life of a process.
type processRun struct {
	pid     int
	started string // as the kernel counts it
}

// guardAll begins to watch the services of a stack.
func (h *harness) guardAll(t *testing.T) *guard {
	t.Helper()
	g := &guard{loadGenerator: newLoadGenerator(t), harness: h, runs: map[string]processRun{}, peak: map[string]int64{}, reported: map[string]int64{}}
	for _, service := range stack.Services {
		g.begin(t, string(service))
	}
	g.start(1, func(int) {
		g.sample()
		g.pause(sampleEach)
	})
	return g
}

// begin caps a process's memory and notes which one it is.
func (g *guard) begin(t *testing.T, member string) {
	t.Helper()
	now, err := g.harness.runOf(member)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(now.pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: memoryCap, Max: memoryCap}, nil); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs[member] = now
	g.peak[member], g.reported[member] = 0, 0
}

// runOf is the life of a member's process.
func (h *harness) runOf(member string) (processRun, error) {
	pid, err := h.PID(member)
	if err != nil {
		return processRun{}, err
	}
	started, err := proc.Started(pid)
	return processRun{pid, started}, err
}

func (g *guard) sample() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for member, r := range g.runs {
		if bytes, err := proc.RSS(r.pid); err == nil { // one that has ended is seen by check
			g.peak[member] = max(g.peak[member], bytes)
		}
	}
}

// grown is a member's peak when it is beyond the bound and larger than when it was last
// complained about: memory that was freed stays with the process for a while.
func (g *guard) grown(member string) (peak int64, complain bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	peak = g.peak[member]
	if peak <= max(memoryBound, g.reported[member]+g.reported[member]/4) {
		return peak, false
	}
	g.reported[member] = peak
	return peak, true
}

// check wants every process to be the one that it was and no larger than it may be.
// One that has ended is started again, so that what comes next is tried too.
func (g *guard) check(t *testing.T, during string) {
	t.Helper()
	g.checking.Lock()
	defer g.checking.Unlock()
	for _, service := range stack.Services {
		member := string(service)
		if peak, complain := g.grown(member); complain {
			t.Errorf("%s: %s held %d MiB, at most %d are allowed", during, member, peak>>20, int64(memoryBound)>>20)
		}
		g.mu.Lock()
		before := g.runs[member]
		g.mu.Unlock()
		if now, err := g.harness.runOf(member); err == nil && now == before {
			continue
		}
		t.Errorf("%s: the process of %s ended: %s", during, member, g.harness.lastWords(member))
		if err := g.harness.Restart(context.WithoutCancel(t.Context()), member); err != nil {
			t.Fatal(err)
		}
		g.begin(t, member)
	}
}

// lastWords is why a process ended, by its log.
func (h *harness) lastWords(member string) string {
	file, err := os.Open(fmt.Sprintf("%s/%s.log", h.logs(), member))
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	words := "its log does not say why"
	for lines := bufio.NewScanner(file); lines.Scan(); {
		for _, begin := range []string{"fatal error: ", "panic: ", "runtime: "} {
			if strings.HasPrefix(lines.Text(), begin) {
				words = lines.Text()
			}
		}
	}
	return words
}
