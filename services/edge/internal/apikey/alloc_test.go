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
