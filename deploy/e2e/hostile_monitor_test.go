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
	// memoryBound is the memory, in bytes, that a service may hold under attack: the limit that its README recommends.
	memoryBound = 512 << 20
	// memoryCap, in bytes of address space, ends a process that goes far beyond memoryBound, so that the machine survives.
	// Go reserves a gigabyte and more of address space from the start.
	memoryCap       = 4 << 30
	monitorInterval = 50 * time.Millisecond
)

// processMonitor checks that each service keeps its process, and records the memory that the process holds.
type processMonitor struct {
	*loadGenerator

	harness *harness

	checking sync.Mutex

	mu       sync.Mutex
	runs     map[string]processRun
	peak     map[string]int64 // maximum of the current process, in bytes
	reported map[string]int64 // the part of peak that was already reported
}

// processRun identifies a process of a member.
type processRun struct {
	pid     int
	started string // in the kernel's ticks since boot
}

// monitorProcesses starts to monitor the services of a stack.
func (h *harness) monitorProcesses(t *testing.T) *processMonitor {
	t.Helper()
	m := &processMonitor{loadGenerator: newLoadGenerator(t), harness: h, runs: map[string]processRun{}, peak: map[string]int64{}, reported: map[string]int64{}}
	for _, service := range stack.Services {
		m.begin(t, string(service))
	}
	m.start(1, func(int) {
		m.sample()
		m.pause(monitorInterval)
	})
	return m
}

// begin limits the memory of a member's process and records which process it is.
func (m *processMonitor) begin(t *testing.T, member string) {
	t.Helper()
	now, err := m.harness.runOf(member)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(now.pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: memoryCap, Max: memoryCap}, nil); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[member] = now
	m.peak[member], m.reported[member] = 0, 0
}

// runOf returns the current process of a member.
func (h *harness) runOf(member string) (processRun, error) {
	pid, err := h.PID(member)
	if err != nil {
		return processRun{}, err
	}
	started, err := proc.Started(pid)
	return processRun{pid, started}, err
}

func (m *processMonitor) sample() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for member, r := range m.runs {
		if bytes, err := proc.RSS(r.pid); err == nil { // check reports a process that has ended
			m.peak[member] = max(m.peak[member], bytes)
		}
	}
}

// grown returns a member's peak, and reports whether it is beyond the bound and larger than when it was last reported:
// memory that was freed stays with the process for a while.
func (m *processMonitor) grown(member string) (peak int64, tooLarge bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	peak = m.peak[member]
	if peak <= max(memoryBound, m.reported[member]+m.reported[member]/4) {
		return peak, false
	}
	m.reported[member] = peak
	return peak, true
}

// check fails the test for each process that has ended or is larger than allowed. It starts an ended one again, so that
// the next input is tried too.
func (m *processMonitor) check(t *testing.T, during string) {
	t.Helper()
	m.checking.Lock()
	defer m.checking.Unlock()
	for _, service := range stack.Services {
		member := string(service)
		if peak, tooLarge := m.grown(member); tooLarge {
			t.Errorf("%s: %s held %d MiB, at most %d are allowed", during, member, peak>>20, int64(memoryBound)>>20)
		}
		m.mu.Lock()
		before := m.runs[member]
		m.mu.Unlock()
		if now, err := m.harness.runOf(member); err == nil && now == before {
			continue
		}
		t.Errorf("%s: the process of %s ended: %s", during, member, m.harness.exitReason(member))
		if err := m.harness.Restart(context.WithoutCancel(t.Context()), member); err != nil {
			t.Fatal(err)
		}
		m.begin(t, member)
	}
}

// exitReason returns the reason for which a process ended, as its log has it.
func (h *harness) exitReason(member string) string {
	file, err := os.Open(fmt.Sprintf("%s/%s.log", h.logs(), member))
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	reason := "its log does not say why"
	for lines := bufio.NewScanner(file); lines.Scan(); {
		for _, begin := range []string{"fatal error: ", "panic: ", "runtime: "} {
			if strings.HasPrefix(lines.Text(), begin) {
				reason = lines.Text()
			}
		}
	}
	return reason
}
