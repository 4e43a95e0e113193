package trust

import (
	"context"
	"errors"
	"testing"
)

// source returns changes, in order: the first is version 1.
type source struct {
	changes []Record
	err     error
}

func (s *source) Since(_ context.Context, since int64) ([]Record, int64, error) {
	return s.changes[since:], int64(len(s.changes)), s.err
}

func TestLevels(t *testing.T) {
	var away error
	s := &source{changes: []Record{
		{Organization: "acme", Server: "a", Level: Verified, Effective: Community},
		{Organization: "acme", Server: "b", Level: FirstParty, Effective: FirstParty},
	}}
	l := NewLevels(s, func(context.Context) error { return away })
	expect := func(organization, id string, want Level) {
		t.Helper()
		if got, err := l.Level(organization, id); err != nil || got != want {
			t.Errorf("%s %s: %s %v, want %s", organization, id, got, err, want)
		}
	}
	expect("acme", "a", Untrusted)
	version, err := l.Load(t.Context(), 0)
	if err != nil || version != 2 {
		t.Fatalf("%d %v", version, err)
	}
	expect("acme", "a", Community) // Not the level that waits for its review.
	expect("acme", "b", FirstParty)
	expect("acme", "c", Untrusted)
	expect("other", "b", Untrusted)
	s.changes = append(s.changes, Record{Organization: "acme", Server: "b", Level: Untrusted, Effective: Untrusted})
	if version, err = l.Load(t.Context(), version); err != nil || version != 3 {
		t.Fatalf("%d %v", version, err)
	}
	expect("acme", "b", Untrusted)
	expect("acme", "a", Community)

	s.err = errors.New("away")
	if _, err := l.Load(t.Context(), version); !errors.Is(err, s.err) {
		t.Errorf("a failed load: %v", err)
	}
	expect("acme", "a", Community)
	away = errors.New("not read for ten seconds")
	if level, err := l.Level("acme", "a"); !errors.Is(err, ErrStale) || level != "" {
		t.Errorf("levels that are too old: %q %v", level, err)
	}
}

func TestAtLeast(t *testing.T) {
	for i, level := range levels {
		for j, minimum := range levels {
			if got := level.AtLeast(minimum); got != (i >= j) {
				t.Errorf("%s at least %s: %t", level, minimum, got)
			}
		}
		if level.AtLeast("") || level.AtLeast("VERIFIEd") || Level("ROOT").AtLeast(level) || Level("").AtLeast(level) {
			t.Errorf("%s beside levels that don't exist", level)
		}
	}
	if Level("").AtLeast("") {
		t.Error("no level is enough for no minimum")
	}
}
