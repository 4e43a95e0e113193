package alive_test

import (
	"encoding/json"
	"testing"
	"time"

	"switchyard.dev/services/platform/alive"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func TestFlows(t *testing.T) {
	var f alive.Flows
	if f.Others(1, start) {
		t.Error("the zero Flows holds a flow")
	}
	f = f.With(1, at(1))
	if f.Others(1, start) || !f.Others(2, at(1)) || f.Others(2, at(2)) {
		t.Errorf("after one answer: %+v", f)
	}
	f = f.With(2, at(2)).With(1, at(3)).With(1, at(2))
	if !f.Others(2, at(3)) {
		t.Errorf("a later answer was lost: %+v", f)
	}
	if f = f.Without(1); f.Others(2, start) || !f.Others(1, start) {
		t.Errorf("after the first failed: %+v", f)
	}
	merged := f.Merge(alive.Flows{}.With(3, at(1)).With(4, at(9)), at(5))
	if !merged.Others(2, at(5)) || merged.Without(4).Others(2, start) {
		t.Errorf("merged: %+v", merged)
	}
}

// However many flows get an answer, Flows keeps the latest ones, and its text is bounded.
func TestFlowsAreBounded(t *testing.T) {
	var f alive.Flows
	const flows = 10_000
	for i := range flows {
		f = f.With(uint64(i+1), at(i))
	}
	for i := range f {
		if !f.Others(0, at(flows-2-i)) {
			t.Errorf("answer %d from the end was lost", i)
		}
		f = f.Without(uint64(flows - i))
	}
	if f != (alive.Flows{}) {
		t.Errorf("older answers are kept: %+v", f)
	}
	for i := range flows {
		f = f.With(1<<63+uint64(i), at(i))
	}
	text, err := json.Marshal(f)
	var back alive.Flows
	if err != nil || len(text) > 600 || json.Unmarshal(text, &back) != nil || back != f {
		t.Errorf("%d bytes, %v: %s", len(text), err, text)
	}
}
