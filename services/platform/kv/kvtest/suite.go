package kvtest

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/kv"
)

// Run tests the requirements on every kv.Store. open returns an empty store for each test.
func Run(t *testing.T, open func(t *testing.T) kv.Store) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, store kv.Store){
		"swaps only what was read":        testSwap,
		"keys are independent":            testKeys,
		"no swap of many callers is lost": testConcurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func testSwap(t *testing.T, store kv.Store) {
	t.Helper()
	for _, step := range []struct {
		old, next string
		made      bool
		after     string
	}{
		{"", "one", true, "one"},
		{"", "two", false, "one"},
		{"two", "three", false, "one"},
		{"one", "two", true, "two"},
		{"two", "two", true, "two"},
		{"two", "", true, ""},
		{"two", "one", false, ""},
		{"", "", true, ""},
		{"", "three", true, "three"},
	} {
		made, err := store.Swap(t.Context(), []kv.Swap{{Key: "k", Old: step.old, New: step.next, Life: time.Minute}})
		if err != nil {
			t.Fatalf("swap %q for %q: %v", step.old, step.next, err)
		}
		if diff := cmp.Diff([]bool{step.made}, made); diff != "" {
			t.Errorf("swap %q for %q (-want +got):\n%s", step.old, step.next, diff)
		}
		wantTexts(t, store, map[string]string{"k": step.after})
	}
}

func testKeys(t *testing.T, store kv.Store) {
	t.Helper()
	wantTexts(t, store, map[string]string{"a": "", "b": ""})
	for _, round := range []struct {
		swaps []kv.Swap
		made  []bool
		after map[string]string
	}{
		{
			[]kv.Swap{{Key: "a", New: "1", Life: time.Minute}, {Key: "b", New: "2", Life: time.Minute}},
			[]bool{true, true},
			map[string]string{"a": "1", "b": "2", "a:b": ""},
		},
		{
			[]kv.Swap{{Key: "b", Old: "2", New: "3", Life: time.Minute}, {Key: "a", Old: "0", New: "4", Life: time.Minute}, {Key: "c"}},
			[]bool{true, false, true},
			map[string]string{"a": "1", "b": "3", "c": ""},
		},
	} {
		made, err := store.Swap(t.Context(), round.swaps)
		if err != nil {
			t.Fatalf("swap %+v: %v", round.swaps, err)
		}
		if diff := cmp.Diff(round.made, made); diff != "" {
			t.Errorf("swap %+v (-want +got):\n%s", round.swaps, diff)
		}
		wantTexts(t, store, round.after)
	}
}

func testConcurrent(t *testing.T, store kv.Store) {
	t.Helper()
	const callers, each = 4, 20
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := 0; n < each; {
				old, err := store.Get(t.Context(), []string{"k"})
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				count, _ := strconv.Atoi(old[0]) // The empty text is 0.
				made, err := store.Swap(t.Context(), []kv.Swap{{Key: "k", Old: old[0], New: strconv.Itoa(count + 1), Life: time.Minute}})
				if err != nil {
					t.Errorf("swap: %v", err)
					return
				}
				if made[0] {
					n++
				}
			}
		})
	}
	all.Wait()
	wantTexts(t, store, map[string]string{"k": strconv.Itoa(callers * each)})
}

func wantTexts(t *testing.T, store kv.Store, want map[string]string) {
	t.Helper()
	var keys []string
	for key := range want {
		keys = append(keys, key)
	}
	texts, err := store.Get(t.Context(), keys)
	if err != nil {
		t.Fatalf("get %q: %v", keys, err)
	}
	got := make(map[string]string)
	for i, key := range keys {
		got[key] = texts[i]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}
