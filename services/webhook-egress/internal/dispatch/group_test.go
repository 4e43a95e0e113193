package dispatch_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// groups is a store that records how many results share a transaction, and when.
type groups struct {
	memory

	began time.Time
	made  []group
}

type group struct {
	After time.Duration
	Size  int
}

func (g *groups) Settle(ctx context.Context, results []dispatch.Result) ([]bool, error) {
	g.mu.Lock()
	g.made = append(g.made, group{time.Since(g.began), len(results)})
	g.mu.Unlock()
	return g.memory.Settle(ctx, results)
}

// A single result is settled at once. While many deliveries are in flight, results wait for those that follow.
func TestResultsShareATransaction(t *testing.T) {
	for name, tt := range map[string]struct {
		jobs int
		want []group
	}{
		"one":  {1, []group{{time.Millisecond, 1}}},
		"many": {32, []group{{10 * time.Millisecond, 32}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &groups{began: time.Now()}
				store.waiting = jobs(slices.Repeat([]string{"a"}, tt.jobs)...)
				var sent atomic.Int64
				runWith(t, 128, store, func(map[string]string) dispatch.Reply {
					// Of the bubble's time: the claim, whose free slots count as in flight, has ended when an answer comes.
					time.Sleep(time.Duration(sent.Add(1)%8) * time.Millisecond)
					return dispatch.Reply{Status: http.StatusOK}
				}, time.Minute)
				if diff := cmp.Diff(tt.want, store.made); diff != "" {
					t.Errorf("transactions (-want +got):\n%s", diff)
				}
			})
		})
	}
}
