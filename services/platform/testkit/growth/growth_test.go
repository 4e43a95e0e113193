package growth

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

var sink any

func quadratic(n int) {
	text := ""
	for range n {
		text += "abcd"
	}
	sink = text
}

func quadraticTime(n int) {
	sum := 0
	for i := range n {
		for j := range n {
			sum += i ^ j
		}
	}
	sink = sum
}

func exponential(n int) int {
	if n == 0 {
		return 1
	}
	return exponential(n-1) + exponential(n-1)
}

func recursive(n int) int {
	if n == 0 {
		return 0
	}
	var room [8]int
	room[n%8] = recursive(n-1) + 1
	return room[n%8]
}

func of(f func(n int)) func(n int) func() { return func(n int) func() { return func() { f(n) } } }

func TestPlantedFaultsAreCaught(t *testing.T) {
	if distorted {
		t.Skip("the race detector costs more than what is measured; make bench runs this test")
	}
	undisturbed(t)
	doubling := func(n int) {
		text := []byte("x")
		for range n {
			text = append(text, text...)
		}
		sink = text
	}
	for name, tt := range map[string]struct {
		row  Row
		want string
	}{
		"concatenation":        {Row{Make: of(quadratic)}, "the memory"},
		"a loop in a loop":     {Row{Make: of(quadraticTime)}, "processor time"},
		"a few thousand items": {Row{Top: 1 << 13, Make: of(quadraticTime)}, "processor time"},
		"exponential time":     {Row{Make: of(func(n int) { sink = exponential(n) })}, "processor time"},
		"exponential memory":   {Row{Make: of(doubling)}, "memory"},
		"recursion":            {Row{Top: 1 << 20, Make: of(func(n int) { sink = recursive(n) })}, "stack"},
		"a panic":              {Row{Make: of(func(n int) { _ = make([]int, 0)[n] })}, "panic"},
		"too few units":        {Row{Top: 10, Make: of(func(int) {})}, "shows no growth"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.row.check()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestSizesEnd(t *testing.T) {
	for _, top := range []int{32, 100, 1 << 10, 1 << 17, 1<<20 + 7} {
		all := sizes(top)
		if !slices.IsSorted(all) || all[len(all)-1] != top || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("sizes up to %d: %v", top, all)
		}
	}
}

func TestLinearWorkGrowsLinearly(t *testing.T) {
	Linear(t,
		Row{Name: "a builder", Make: of(func(n int) {
			var text strings.Builder
			for range n {
				text.WriteString("abcd")
			}
			sink = text.String()
		})},
		Row{Name: "sorting", Make: func(n int) func() {
			numbers := make([]int, n)
			for i := range numbers {
				numbers[i] = (i * 7919) % n
			}
			return func() { slices.Sort(numbers) }
		}},
		Row{Name: "a map", Make: of(func(n int) {
			made := make(map[int]int)
			for i := range n {
				made[i] = i
			}
			sink = made
		})},
		Row{Name: "nothing", Make: of(func(int) {})},
		Row{Name: "recursion with a bound", Top: 1 << 20, Make: of(func(n int) { sink = recursive(min(n, 10_000)) })},
	)
	Linear(t, Each(JSON, func(text []byte) {
		var v any
		_ = json.Unmarshal(text, &v)
		sink = v
	})...)
}
