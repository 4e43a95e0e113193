package credit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/credit"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// good returns a grant that is good from an hour ago for some more hours.
func good(pico, spent int64, hours int) credit.Grant {
	return credit.Grant{Pico: pico, Spent: spent, CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Duration(hours) * time.Hour)}
}

func TestDraw(t *testing.T) {
	for name, tt := range map[string]struct {
		grants    []credit.Grant
		costs     []credit.Cost
		charged   []int64
		uncovered int64
	}{
		"nothing":              {},
		"no grants":            {costs: []credit.Cost{{now, 7}}, uncovered: 7, charged: []int64{}},
		"the first to expire":  {[]credit.Grant{good(10, 0, 1), good(10, 0, 2)}, []credit.Cost{{now, 3}, {now, 4}}, []int64{7, 0}, 0},
		"over two":             {[]credit.Grant{good(10, 5, 1), good(10, 0, 2)}, []credit.Cost{{now, 9}}, []int64{5, 4}, 0},
		"more than there is":   {[]credit.Grant{good(10, 5, 1), good(2, 0, 2)}, []credit.Cost{{now, 9}, {now, 1}}, []int64{5, 2}, 3},
		"expired":              {[]credit.Grant{good(10, 0, 0), good(10, 0, 1)}, []credit.Cost{{now, 3}}, []int64{0, 3}, 0},
		"began before the end": {[]credit.Grant{good(10, 0, 0), good(10, 0, 1)}, []credit.Cost{{now.Add(-1), 3}}, []int64{3, 0}, 0},
		"before the grant":     {[]credit.Grant{good(10, 0, 1)}, []credit.Cost{{now.Add(-2 * time.Hour), 3}}, []int64{0}, 3},
		"free":                 {[]credit.Grant{good(10, 0, 1)}, []credit.Cost{{now, 0}}, []int64{0}, 0},
		"huge":                 {[]credit.Grant{good(1, 0, 1)}, []credit.Cost{{now, math.MaxInt64}, {now, math.MaxInt64}}, []int64{1}, math.MaxInt64},
	} {
		charged, uncovered := credit.Draw(tt.grants, tt.costs)
		if tt.charged == nil {
			tt.charged = []int64{}
		}
		if diff := cmp.Diff(tt.charged, charged); diff != "" || uncovered != tt.uncovered {
			t.Errorf("%s: uncovered %d, want %d (-want +got):\n%s", name, uncovered, tt.uncovered, diff)
		}
	}
}

// Nothing is lost or spent twice: what is charged and what is uncovered is what calls cost, and no grant is overdrawn.
func TestDrawKeepsSums(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		grants, costs := make([]credit.Grant, chance.IntN(5)), make([]credit.Cost, chance.IntN(20))
		for i := range grants {
			pico := chance.Int64N(100)
			grants[i] = good(pico, chance.Int64N(pico+1), i-1)
		}
		var want int64
		for i := range costs {
			costs[i] = credit.Cost{At: now.Add(time.Duration(chance.IntN(240)-120) * time.Minute), Pico: chance.Int64N(30)}
			want += costs[i].Pico
		}
		charged, got := credit.Draw(grants, costs)
		for i, pico := range charged {
			if got += pico; pico < 0 || pico > grants[i].Pico-grants[i].Spent {
				t.Fatalf("grant %+v is charged %d", grants[i], pico)
			}
		}
		if got != want {
			t.Fatalf("charged and uncovered are %d, costs %d", got, want)
		}
	}
}
