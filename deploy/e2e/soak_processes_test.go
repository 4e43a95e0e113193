//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/proc"
)

// resources is what a process holds at one moment.
type resources struct{ goroutines, files, bytes int64 }

// processHistory is one run of a service's process, sampled every soakSampleInterval.
type processHistory struct {
	member  string
	pid     int
	samples []resources
}

// processSampler records the resources that the services' processes hold.
type processSampler struct {
	*loadGenerator

	processes []*processHistory
}

const (
	soakSampleInterval = 500 * time.Millisecond
	// minSamples is the number of samples of a run that suffices to detect growth.
	minSamples = 12
)

func (h *harness) sampleProcesses(t *testing.T) *processSampler {
	t.Helper()
	w := &processSampler{loadGenerator: newLoadGenerator(t)}
	w.start(1, func(int) {
		for _, service := range stack.Services {
			w.sample(t.Context(), h, string(service))
		}
		w.pause(soakSampleInterval)
	})
	return w
}

// sample adds a sample to the history of a member's current process, or begins a history. A process that is being
// killed gets none.
func (w *processSampler) sample(ctx context.Context, h *harness, member string) {
	pid, err := h.PID(member)
	if err != nil {
		return
	}
	now, err := resourcesOf(ctx, pid, h.MetricsURL(member))
	if err != nil {
		return
	}
	i := slices.IndexFunc(w.processes, func(l *processHistory) bool { return l.member == member && l.pid == pid })
	if i < 0 {
		i = len(w.processes)
		w.processes = append(w.processes, &processHistory{member: member, pid: pid})
	}
	w.processes[i].samples = append(w.processes[i].samples, now)
}

func resourcesOf(ctx context.Context, pid int, url string) (now resources, err error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return now, err
	}
	now.files = int64(len(files))
	if now.bytes, err = proc.RSS(pid); err != nil {
		return now, err
	}
	now.goroutines, err = goroutines(ctx, url)
	return now, err
}

// goroutines returns the number of goroutines by a service's metrics.
func goroutines(ctx context.Context, url string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, soakSampleInterval)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := httpClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "go_goroutines "); found {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return 0, errors.New("the metrics have no go_goroutines")
}

// peak returns the maximum of memory, in bytes, that any process of a member held in a sample.
func (w *processSampler) peak(member string) (most int64) {
	for _, l := range w.processes {
		for _, now := range l.samples {
			if l.member == member {
				most = max(most, now.bytes)
			}
		}
	}
	return most
}

// growth returns the medians of the two halves of a run after its first quarter, in which caches and connections fill.
// ok is false for a run with too few samples.
func (l *processHistory) growth() (first, second resources, ok bool) {
	settled := l.samples[len(l.samples)/4:]
	if len(settled) < minSamples {
		return first, second, false
	}
	half := len(settled) / 2
	return medianOf(settled[:half]), medianOf(settled[half:]), true
}

func medianOf(samples []resources) resources {
	median := func(of func(resources) int64) int64 {
		var all []int64
		for _, h := range samples {
			all = append(all, of(h))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return resources{
		goroutines: median(func(h resources) int64 { return h.goroutines }),
		files:      median(func(h resources) int64 { return h.files }),
		bytes:      median(func(h resources) int64 { return h.bytes }),
	}
}
