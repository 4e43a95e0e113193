//go:build !race

package apikey

import "testing"

// Not with -race: there sync.Pool drops what it is given at random.
func TestCachedCheckDoesNotAllocate(t *testing.T) {
	v, s, header, digest := world(t)
	s.rows[digest].Terms = Terms{TokensPerMinute: 7, Models: []string{"a"}, Budget: Budget{1, PeriodDay}, Class: ClassBulk}
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := v.Verify(ctx, header); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a cached key, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { _ = WellFormed(header[len("Bearer "):]) }); n != 0 {
		t.Errorf("%v allocations for the form, want 0", n)
	}
}

func TestScopeCheckDoesNotAllocate(t *testing.T) {
	v, s, header, digest := world(t)
	s.rows[digest].Permissions = Scopes()
	s.rows[digest].Product = "ai"
	key, err := v.Verify(t.Context(), header)
	if err != nil {
		t.Fatal(err)
	}
	met, missed := NewNeed([]string{"platform", "ai"}, Read, "ai:chat:invoke"), NewNeed([]string{"ai"}, Write, "")
	if n := testing.AllocsPerRun(1000, func() {
		if key.May(met) != nil || key.May(missed) == nil {
			t.Fatal("the need for a scope is met by another set than that of all scopes")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
