package testkit

import (
	"errors"
	"strings"
	"testing"
)

func TestWait(t *testing.T) {
	looks := 0
	r := record(t, func(tb testing.TB) {
		tb.Helper()
		Wait(tb, "the third look", func() error {
			if looks++; looks < 3 {
				return errors.New("not yet")
			}
			return nil
		})
	})
	if r.failed || looks != 3 {
		t.Errorf("failed %t after %d looks: %s", r.failed, looks, r.said.String())
	}
	r = record(t, func(tb testing.TB) {
		tb.Helper()
		wait(tb, 2*pause, "what never comes", func() error { return errors.New("the last objection") })
	})
	if said := r.said.String(); !r.failed || !strings.Contains(said, "what never comes: not within 10ms: the last objection") {
		t.Errorf("failed %t: %q", r.failed, said)
	}
}
