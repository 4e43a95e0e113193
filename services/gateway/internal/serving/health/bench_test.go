package health

import (
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// The cost of an attempt's permit and record, with the state of a healthy fleet in memory.
func BenchmarkPermitAndRecord(b *testing.B) {
	m := known(b)
	ctx, c := b.Context(), of("acme")
	b.ReportAllocs()
	for b.Loop() {
		p, r := m.Acquire(ctx, c)
		if r != nil {
			b.Fatal(r)
		}
		p.First()
		p.End(ctx, Verdict{Outcome: Good})
	}
}

func BenchmarkPermitAndRecordParallel(b *testing.B) {
	m := known(b)
	c := of("acme")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, r := m.Acquire(b.Context(), c)
			if r != nil {
				b.Error(r)
				return
			}
			p.End(b.Context(), Verdict{Outcome: Good})
		}
	})
}

func known(tb testing.TB) *Monitor {
	tb.Helper()
	m := New(Options{})
	p, r := m.Acquire(tb.Context(), of("acme"))
	if r != nil {
		tb.Fatal(r)
	}
	p.Learn(provider.Limits{Requests: provider.Allowance{Known: true, Remaining: 100, Reset: MaxCooldown}})
	p.End(tb.Context(), Verdict{Outcome: Good})
	return m
}

func TestPermitAndRecordDoesNotAllocate(t *testing.T) {
	m := known(t)
	ctx, c := t.Context(), of("acme")
	if n := testing.AllocsPerRun(100, func() {
		p, _ := m.Acquire(ctx, c)
		p.End(ctx, Verdict{Outcome: Good})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
