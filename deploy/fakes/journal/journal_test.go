package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddForgetsTheOldest(t *testing.T) {
	tests := []struct {
		name     string
		maxItems int
		maxBytes int
		sizes    []int
		want     []int
	}{
		{"below both bounds", 3, 100, []int{1, 2, 3}, []int{0, 1, 2}},
		{"by number", 2, 100, []int{1, 2, 3}, []int{1, 2}},
		{"by size", 9, 5, []int{2, 2, 2, 2}, []int{2, 3}},
		{"the newest stays whatever its size", 9, 5, []int{1, 50}, []int{1}},
		{"room again after a large one", 9, 5, []int{50, 1, 1}, []int{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := New[int](tt.maxItems, tt.maxBytes)
			for i, size := range tt.sizes {
				j.Add(i, size)
			}
			if diff := cmp.Diff(tt.want, j.Last(100, nil)); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			if got := j.Total(); got != len(tt.sizes) {
				t.Errorf("Total() = %d, want %d", got, len(tt.sizes))
			}
		})
	}
}

func TestLastFiltersAndLimits(t *testing.T) {
	j := New[int](10, 1000)
	for i := range 8 {
		j.Add(i, 1)
	}
	even := func(n int) bool { return n%2 == 0 }
	if diff := cmp.Diff([]int{4, 6}, j.Last(2, even)); diff != "" {
		t.Errorf("Last(2, even) (-want +got):\n%s", diff)
	}
	if got := j.Last(-1, nil); len(got) != 0 {
		t.Errorf("Last(-1) = %v, want none", got)
	}
	if got := j.Count(even); got != 4 {
		t.Errorf("Count(even) = %d, want 4", got)
	}
	j.Clear()
	if j.Count(nil) != 0 || j.Total() != 0 {
		t.Errorf("after Clear: count %d, total %d", j.Count(nil), j.Total())
	}
}
