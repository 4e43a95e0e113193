//go:build !race

package limit

import (
	"testing"
	"time"
)

func TestTakeDoesNotAllocate(t *testing.T) {
	x := New(nil)
	key := Bucket{"key 1", Limit{Requests: 1_000_000, Window: time.Second, Burst: 1_000_000}}
	organization := Bucket{"organization 1", key.Limit}
	ctx := t.Context()
	for name, buckets := range map[string][2]Bucket{"bounded": {key, organization}, "unbounded": {}} {
		if n := testing.AllocsPerRun(1000, func() { _, _ = x.Take(ctx, buckets[0], buckets[1]) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
