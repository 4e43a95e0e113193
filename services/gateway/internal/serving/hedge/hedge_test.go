package hedge

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestTake(t *testing.T) {
	var s State
	if _, ok := s.Take(1, 2, noon); ok {
		t.Fatal("a hedge before anything was earned")
	}
	for range 49 {
		s = s.Earn(1000, 10, 2, noon)
	}
	if _, ok := s.Take(1000, 2, noon); ok {
		t.Errorf("a hedge of 1000 with %d left", s.Left)
	}
	s = s.Earn(1000, 10, 2, noon)
	s, ok := s.Take(1000, 2, noon)
	if !ok || s.Left != 0 {
		t.Errorf("a hedge of 1000 is %t, %d left", ok, s.Left)
	}
	if s = s.Settle(1000, 250); s.Left != 750 {
		t.Errorf("%d left after a hedge that cost 250", s.Left)
	}
	if s = s.Settle(0, 1000); s.Left != -250 {
		t.Errorf("%d left after a hedge that cost 1000 more", s.Left)
	}
	if _, ok := s.Take(0, 2, noon); ok {
		t.Error("a hedge that costs nothing, in debt")
	}
}

// What is saved up loses its weight with the spend that earned it.
func TestSavingsFade(t *testing.T) {
	s := State{}.Earn(100_000, 10, 2, noon)
	if _, ok := s.Take(2000, 2, noon); !ok {
		t.Errorf("%d left of 2000", s.Left)
	}
	if _, ok := s.Take(1001, 2, noon.Add(halfLife)); ok {
		t.Error("more than half is left after the half-life")
	}
	if _, ok := s.Take(1000, 2, noon.Add(halfLife)); !ok {
		t.Error("less than half is left after the half-life")
	}
	if _, ok := s.Take(1, 2, noon.Add(100*halfLife)); ok {
		t.Error("something is left of long ago")
	}
}

// Hedges that cost no more than estimated never cost more than the percentage, whatever happens in which order.
func TestBudgetHolds(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		percent := 0.1 + 20*r.Float64()
		var s State
		var spent, hedged price.Pico
		now, held := noon, []price.Pico{}
		for range 2000 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Minute))))
			switch cost := price.Pico(r.Int64N(1 << (1 + r.IntN(40)))); r.IntN(3) {
			case 0:
				s = s.Earn(cost, 1, percent, now)
				spent += cost
			case 1:
				var ok bool
				if s, ok = s.Take(cost, percent, now); ok {
					held = append(held, cost)
				}
			default:
				if len(held) > 0 {
					real := price.Pico(r.Int64N(int64(held[0]) + 1))
					s, hedged, held = s.Settle(held[0], real), hedged+real, held[1:]
				}
			}
			if most := float64(spent) * percent / 100; float64(hedged) > most {
				t.Fatalf("seed %d: hedges cost %d of %d, more than %f%%", seed, hedged, spent, percent)
			}
		}
	}
}

// Amounts at the edge of what fits neither overflow nor give money away.
func TestHugeAmounts(t *testing.T) {
	var s State
	for range 100 {
		s = s.Earn(math.MaxInt64, math.MaxInt64, 20, noon)
	}
	if s.Left <= 0 {
		t.Errorf("%d left", s.Left)
	}
	if s = s.Settle(1, math.MaxInt64).Settle(1, math.MaxInt64); s.Left > math.MaxInt64/2 {
		t.Errorf("%d left after two hedges that cost everything", s.Left)
	}
}

func TestWorth(t *testing.T) {
	for cost, want := range map[price.Pico]price.Pico{7: 7, 0: 3e6} {
		if got := Worth(cost, 3); got != want {
			t.Errorf("%d: %d, want %d", cost, got, want)
		}
	}
	if got := Worth(0, math.MaxInt64); got <= 0 {
		t.Errorf("%d of more tokens than there are", got)
	}
}

func TestUsualOutput(t *testing.T) {
	var b Budget
	if got := b.UsualOutput(); got != startOutput {
		t.Errorf("%d before the first answer", got)
	}
	for range 200 {
		b.Earn(1, 40, 1, noon)
	}
	if got := b.UsualOutput(); got < 35 || got > 45 {
		t.Errorf("%d, want about 40", got)
	}
}
