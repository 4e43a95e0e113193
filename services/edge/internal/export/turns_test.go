package export

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// However many customers' requests hang, the others' events of the same page arrive within minutes. After an hour the
// events that hang are set aside, so that the export goes on. Restarts change none of this.
func TestCustomersThatHangHoldUpNoOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		hanging int // of 100 customers, the first ones
		life    time.Duration
	}{
		"one":                 {1, 0},
		"as many as at once":  {stripeRequests, 0},
		"a step of them":      {40, 0},
		"most":                {60, 0},
		"nearly all":          {99, 0},
		"most, with restarts": {60, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d := Destination{
				Name: "d", Kind: Stripe, KeyFile: secret.File(testkit.File(t, "the-key\n")), BaseURL: "http://vendor",
				Meters: map[string]string{"llm_requests": "calls"},
			}
			synctest.Test(t, func(t *testing.T) {
				store, begun := &memory{fence: 1}, time.Now()
				store.fill(100)
				hangs := make(map[string]bool)
				for i := range store.growths {
					store.growths[i].Organization = fmt.Sprintf("org-%d", i)
					hangs[store.growths[i].Entry().ID+"/llm_requests"] = i < tt.hanging
				}
				server := &losing{way: waysToLose["hangs"], taken: make(map[string]bool), loses: func(id string) bool { return hangs[id] }}
				run := func(until time.Duration) {
					t.Helper()
					for left := until - time.Since(begun); left > 0; left = until - time.Since(begun) {
						life := left
						if tt.life > 0 {
							life = min(left, tt.life)
						}
						runFor(t, life, store, NewCountFeed(store), d, server)
					}
				}
				run(5 * time.Minute)
				for id, hung := range hangs {
					if server.taken[id] == hung {
						t.Errorf("%s: taken %t, hangs %t", id, server.taken[id], hung)
					}
				}
				if len(store.refused) > 0 {
					t.Errorf("%d events are set aside after five minutes", len(store.refused))
				}
				run(90 * time.Minute)
				if c := store.cursor; c.Position != "100" || len(store.refused) != tt.hanging {
					t.Errorf("it is at %q with %q, %d events are set aside", c.Position, c.Failure, len(store.refused))
				}
				for _, r := range store.refused {
					if !hangs[r.Identifier] || !strings.HasPrefix(r.Reason, "uncertain: failed alone") {
						t.Errorf("set aside %+v", r)
					}
				}
			})
		})
	}
}

// entries is a source with one page.
type entries []Entry

func (e entries) Waiting(context.Context, string) int { return 0 }

func (e entries) Page(_ context.Context, c Cursor, _ int) (Page, error) {
	if c.Position != "" {
		return Page{Next: c.Position, End: true}, nil
	}
	return Page{Entries: e, Next: "1", End: true}, nil
}

// A page may have more events than a send. If all of the first send are lost, most others arrive nevertheless, and the
// rest once those that fail alone are set aside.
func TestEventsBehindABatchThatIsLost(t *testing.T) {
	var page entries
	for i := range 60 {
		page = append(page, Entry{ID: fmt.Sprintf("id-%d", i), Organization: fmt.Sprintf("org-%d", i), At: hour, Values: []Value{
			{"llm_requests", "1"}, {"tool_calls", "1"}, {"deliveries", "1"},
		}})
	}
	everyLoss(t, "the first batch", func(t *testing.T, d Destination, server *losing) {
		t.Helper()
		d.Meters = map[string]string{"llm_requests": "calls", "tool_calls": "tools", "deliveries": "sent"}
		server.loses = func(id string) bool {
			var organization int
			_, err := fmt.Sscanf(id, "id-%d/", &organization)
			return err == nil && organization < 40
		}
		store := &memory{fence: 1}
		taken := func() (n int) {
			for _, ok := range server.taken {
				if ok {
					n++
				}
			}
			return n
		}
		runFor(t, 55*time.Minute, store, page, d, server)
		if taken() < 30 || len(store.refused) > 0 {
			t.Errorf("within the hour %d of 60 events are taken, %d set aside", taken(), len(store.refused))
		}
		runFor(t, 2*time.Hour, store, page, d, server)
		if taken() != 60 || len(store.refused) != 120 || store.cursor.Position != "1" {
			t.Errorf("in the end %d of 60 events are taken, %d of 120 set aside", taken(), len(store.refused))
		}
	})
}
