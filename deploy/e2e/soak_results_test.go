//go:build e2e

package e2e_test

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// resultTable compares the answers that customers got with what the services recorded, a line for each promise: every
// success must be in every record, and the only other entries may be calls whose answer was cut off.
type resultTable struct {
	title string
	lines []resultLine
}

type resultLine struct {
	what, expected, found string
	holds                 bool
}

func (r *resultTable) add(what string, expected, found any, holds bool) {
	r.lines = append(r.lines, resultLine{what, fmt.Sprint(expected), fmt.Sprint(found), holds})
}

func (r *resultTable) exactly(what string, expected, found int) {
	r.add(what, expected, found, expected == found)
}

func (r *resultTable) atMost(what string, most, found int) {
	r.add(what, fmt.Sprint("at most ", most), found, found <= most)
}

func (r *resultTable) String() string {
	var text strings.Builder
	fmt.Fprintln(&text, r.title)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\texpected\tfound\tverdict")
	for _, l := range r.lines {
		verdict := "holds"
		if !l.holds {
			verdict = "FAILS"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.what, l.expected, l.found, verdict)
	}
	_ = table.Flush()
	return text.String()
}

// compare waits until everything accepted has ended, and compares the answers that the customers got with the records
// of the services and of the third parties.
func (s *soak) compare(t *testing.T, kills []kill, w *processSampler) *resultTable {
	t.Helper()
	summary := fmt.Sprintf("after %d kills:", len(kills))
	for _, member := range []string{"gateway", "webhook-egress", "notify", "edge", store.Postgres, store.Redis} {
		summary += fmt.Sprintf(" %s %d,", member, countKills(kills, member))
	}
	results := &resultTable{title: fmt.Sprintf("soak with %s=%d, ", soakSeed, s.seed) + strings.TrimSuffix(summary, ",")}
	s.deadline = time.Now().Add(soakTimeout)
	results.exactly("calls that a customer had to give up", 0, s.gaveUp)
	if s.firstReason != nil {
		t.Errorf("the first call that was given up: %v", s.firstReason)
	}
	s.compareCompletions(t, results, kills)
	s.compareBilling(t, results)
	s.compareDeliveries(t, results, kills)
	s.compareSends(t, results)
	s.compareInboxes(t, results)
	s.compareHostile(t, results, w)
	s.compareProcesses(t, results, w)
	return results
}

// ledgerRow is a record of the usage feed.
type ledgerRow struct {
	RequestID string  `json:"request_id"`
	Cents     float64 `json:"cost_cents"`
	Outcome   string  `json:"outcome"`
}

// completions returns how many records are of answers that came to their end. The others are of calls that were given
// up after the vendor had received them, which are billed too.
func completions(of []ledgerRow) (n int) {
	for _, row := range of {
		if row.Outcome == "completed" {
			n++
		}
	}
	return n
}

// ledger returns an organization's records in the usage feed, by request id.
func (h *harness) ledger(t *testing.T, organization string) map[string][]ledgerRow {
	t.Helper()
	rows := map[string][]ledgerRow{}
	gateway := h.service(stack.Gateway, organization)
	pages(t, gateway, "/v1/usage?limit=200", func(page struct {
		Records []ledgerRow `json:"records"`
		Next    string      `json:"next_cursor"`
	},
	) string {
		for _, r := range page.Records {
			rows[r.RequestID] = append(rows[r.RequestID], r)
		}
		if len(page.Records) == 0 {
			return "" // the feed's last page has a cursor too
		}
		return page.Next
	})
	return rows
}

// pages reads a list to its end. take gets each page and returns the cursor of the next one, "" after the last.
func pages[P any](t *testing.T, c client, path string, take func(P) (next string)) {
	t.Helper()
	for cursor := "&"; cursor != ""; {
		var page P
		c.unrecorded(t, http.MethodGet, path+cursor, nil).into(t, http.StatusOK, &page)
		if cursor = take(page); cursor != "" {
			cursor = "&cursor=" + url.QueryEscape(cursor)
		}
	}
}

// invoice returns how often the provider answered each call, by request id.
func (s *soak) invoice(t *testing.T) map[string]int {
	t.Helper()
	var report struct {
		Answered []struct {
			Body string `json:"body"`
		} `json:"answered"`
		Total int `json:"total"`
	}
	s.harness.fake(stack.FakeProvider).unrecorded(t, http.MethodGet, "/_answered?limit=100000", nil).into(t, http.StatusOK, &report)
	if report.Total != len(report.Answered) {
		t.Fatalf("the provider has forgotten %d of its %d answers: the soak is too long for it", report.Total-len(report.Answered), report.Total)
	}
	times := map[string]int{}
	for _, call := range report.Answered {
		found := marked.FindStringSubmatch(call.Body)
		if found == nil {
			t.Fatalf("the provider answered a call that no customer made: %s", call.Body)
		}
		times[found[1]]++
	}
	return times
}

// compareCompletions compares the ledger with the answers that customers got and with those that the provider gave. The
// outcome of a call is unknown if it was in flight in the gateway when the gateway was killed, or when the edge was
// killed before any content had arrived: the provider has begun it, the ledger may lack it, and no customer got an
// answer.
func (s *soak) compareCompletions(t *testing.T, results *resultTable, kills []kill) {
	t.Helper()
	var rows map[string][]ledgerRow
	missing := func() (n int) {
		for id, c := range s.calls {
			if c.outcome == succeeded && len(rows[id]) == 0 {
				n++
			}
		}
		return n
	}
	s.drained(t, "the ledger", func() error {
		if rows = s.harness.ledger(t, s.organization); missing() > 0 {
			return fmt.Errorf("%d completions have no record", missing())
		}
		return nil
	})
	answered, cents, recorded := 0, 0.0, 0.0
	for id, c := range s.calls {
		if c.outcome != succeeded {
			continue
		}
		answered++
		if c.stated && len(rows[id]) > 0 {
			cents, recorded = cents+c.cents, recorded+rows[id][0].Cents
		}
	}
	results.exactly("completions answered to customers, on the ledger", answered, answered-missing())
	results.add("cents in answers to customers, on the ledger", fmt.Sprintf("%.6f", cents), fmt.Sprintf("%.6f", recorded), math.Abs(cents-recorded) < 1e-6*max(1, cents))
	invoice := s.invoice(t)
	twice, unanswered, billed, repeated := 0, 0, 0, 0
	for id, of := range rows {
		if completions(of) > 1 {
			twice++
		}
		if invoice[id] == 0 && completions(of) > 0 {
			unanswered++
		}
	}
	for id, times := range invoice {
		if len(rows[id]) > 0 {
			billed++
		}
		if times > 1 {
			repeated++
		}
	}
	fatal := countKills(kills, string(stack.Gateway)) + countKills(kills, string(stack.Edge))
	least := len(invoice) - fatal*(soakCompleters+soakEmbedders+soakViewers)
	results.add("calls that the provider answered, on the ledger", fmt.Sprintf("%d to %d (in flight at %d kills)", least, len(invoice), fatal), billed, billed >= least)
	results.exactly("calls with two completions on the ledger", 0, twice)
	results.exactly("completions of calls that the provider never answered", 0, unanswered)
	results.exactly("calls that the provider answered twice", 0, repeated)
	results.atMost("llm_requests on the bill, of what the provider answered", len(invoice), int(s.harness.counted(t, s.organization, "llm_requests")))
}

// compareBilling compares the edge's counters with the answers that customers got: every success is counted once, and
// beyond that only calls whose answer broke off.
func (s *soak) compareBilling(t *testing.T, results *resultTable) {
	t.Helper()
	for _, metric := range []string{"llm_requests", "deliveries", "notifications_sent"} {
		succeeded, unknown := s.billed[metric].succeeded.Load(), s.billed[metric].unknown.Load()
		var counted int64
		s.drained(t, metric, func() error {
			if counted = s.harness.counted(t, s.organization, metric); counted < succeeded {
				return fmt.Errorf("%d counted of %d", counted, succeeded)
			}
			return nil
		})
		results.add(metric+" on the bill", fmt.Sprintf("%d to %d (%d answers broke off)", succeeded, succeeded+unknown, unknown), counted, counted >= succeeded && counted <= succeeded+unknown)
	}
}

// The growth that is allowed: connections to Postgres, Redis and third parties, with which a process of some seconds
// fills its pools until its end, and the 64 MiB of heap that a service fills before its garbage collector first runs.
const (
	growthCount = 64
	growthBytes = 64 << 20
)

// compareProcesses fails a line if a process ended by itself, or if most runs of a service hold more in their second half
// than in their first. What leaks does so in every run; the heap of one that lasted some seconds may just be filling.
func (s *soak) compareProcesses(t *testing.T, results *resultTable, w *processSampler) {
	t.Helper()
	results.exactly("processes that ended by themselves", 0, len(s.harness.Exits()))
	for _, service := range stack.Services {
		processes, grown, worst := 0, [3]int{}, [3]string{}
		for _, l := range w.processes {
			first, second, ok := l.growth()
			if l.member != string(service) || !ok {
				continue
			}
			processes++
			for i, of := range []struct{ first, second, slack, unit int64 }{
				{first.goroutines, second.goroutines, growthCount, 1}, {first.files, second.files, growthCount, 1}, {first.bytes, second.bytes, growthBytes, 1 << 20},
			} {
				worst[i] += fmt.Sprintf(" %d>%d", of.first/of.unit, of.second/of.unit)
				if of.second > of.first+of.first/5+of.slack {
					grown[i]++
				}
			}
		}
		results.add(fmt.Sprintf("%s: goroutines, files, MiB over the halves of %d runs", service, processes), "no growth",
			fmt.Sprintf("%s;%s;%s", worst[0], worst[1], worst[2]), processes > 0 && 2*max(grown[0], grown[1], grown[2]) <= processes)
	}
}

// drained waits until condition returns nil or the soak's deadline has passed; the result table shows which.
func (s *soak) drained(t *testing.T, what string, condition func() error) {
	t.Helper()
	if err := await(t.Context(), time.Until(s.deadline), condition); err != nil {
		t.Logf("%s: %v", what, err)
	}
}
