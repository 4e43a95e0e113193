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

// footprint is what a process has at one moment.
type footprint struct{ goroutines, files, bytes int64 }

// life is one run of a service's process, seen once a second.
type life struct {
	member string
	pid    int
	seen   []footprint
}

// watch sees what the services' processes hold.
type watch struct {
	*loadGenerator

	lives []*life
}

const (
	watchEvery = 500 * time.Millisecond
	// watchLeast is how many looks make a life long enough to tell growth.
	watchLeast = 12
)

func (h *harness) watch(t *testing.T) *watch {
	t.Helper()
	w := &watch{loadGenerator: newLoadGenerator(t)}
	w.start(1, func(int) {
		for _, service := range stack.Services {
			w.look(t.Context(), h, string(service))
		}
		w.pause(watchEvery)
	})
	return w
}

// look adds to the life of the process that runs, or begins one. One that is being
// killed is not seen.
func (w *watch) look(ctx context.Context, h *harness, member string) {
	pid, err := h.PID(member)
	if err != nil {
		return
	}
	now, err := footprintOf(ctx, pid, h.MetricsURL(member))
	if err != nil {
		return
	}
	i := slices.IndexFunc(w.lives, func(l *life) bool { return l.member == member && l.pid == pid })
	if i < 0 {
		i = len(w.lives)
		w.lives = append(w.lives, &life{member: member, pid: pid})
	}
	w.lives[i].seen = append(w.lives[i].seen, now)
}

func footprintOf(ctx context.Context, pid int, url string) (now footprint, err error) {
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

// goroutines reads their number from a service's metrics.
func goroutines(ctx context.Context, url string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := wire.Do(r)
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

// peak is the most memory, in bytes, that any process of a member was seen with.
func (w *watch) peak(member string) (most int64) {
	for _, l := range w.lives {
		for _, now := range l.seen {
			if l.member == member {
				most = max(most, now.bytes)
			}
		}
	}
	return most
}

// growth compares the halves of a life after its first quarter, in which caches and
// connections fill: the medians of what was held.
func (l *life) growth() (first, second footprint, ok bool) {
	settled := l.seen[len(l.seen)/4:]
	if len(settled) < watchLeast {
		return first, second, false
	}
	half := len(settled) / 2
	return middle(settled[:half]), middle(settled[half:]), true
}

func middle(seen []footprint) footprint {
	median := func(of func(footprint) int64) int64 {
		var all []int64
		for _, h := range seen {
			all = append(all, of(h))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return footprint{
		goroutines: median(func(h footprint) int64 { return h.goroutines }),
		files:      median(func(h footprint) int64 { return h.files }),
		bytes:      median(func(h footprint) int64 { return h.bytes }),
	}
}
