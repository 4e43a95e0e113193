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

// account compares what customers were answered with what the services recorded, a line for each promise: a success must
// be in every account, and the only other entries may be calls whose answer was cut off.
type account struct {
	title string
	lines []accountLine
}

type accountLine struct {
	what, expected, found string
	holds                 bool
}

func (a *account) add(what string, expected, found any, holds bool) {
	a.lines = append(a.lines, accountLine{what, fmt.Sprint(expected), fmt.Sprint(found), holds})
}

func (a *account) exactly(what string, expected, found int) {
	a.add(what, expected, found, expected == found)
}

func (a *account) atMost(what string, most, found int) {
	a.add(what, fmt.Sprint("at most ", most), found, found <= most)
}

func (a *account) String() string {
	var text strings.Builder
	fmt.Fprintln(&text, a.title)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\texpected\tfound\tverdict")
	for _, l := range a.lines {
		verdict := "holds"
		if !l.holds {
			verdict = "FAILS"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.what, l.expected, l.found, verdict)
	}
	_ = table.Flush()
	return text.String()
}

// account waits until all that was accepted has ended, and compares what the
// customers were told with what the services and the third parties know.
func (s *soak) account(t *testing.T, kills []kill, w *watch) *account {
	t.Helper()
	summary := fmt.Sprintf("after %d kills:", len(kills))
	for _, member := range []string{"gateway", "webhook-egress", "notify", "edge", store.Postgres, store.Redis} {
		summary += fmt.Sprintf(" %s %d,", member, countKills(kills, member))
	}
	a := &account{title: fmt.Sprintf("soak with %s=%d, ", soakSeed, s.seed) + strings.TrimSuffix(summary, ",")}
	s.over = time.Now().Add(soakPatience)
	a.exactly("calls that a customer had to give up", 0, s.given)
	if s.reason != nil {
		t.Errorf("the first call that was given up: %v", s.reason)
	}
	s.accountCompletions(t, a, kills)
	s.accountBilling(t, a)
	s.accountDeliveries(t, a, kills)
	s.accountSends(t, a)
	s.accountInboxes(t, a)
	s.accountHostile(t, a, w)
	s.accountProcesses(t, a, w)
	return a
}

// ledgerRow is a record of the billed feed.
type ledgerRow struct {
	RequestID string  `json:"request_id"`
	Cents     float64 `json:"cost_cents"`
	Outcome   string  `json:"outcome"`
}

// completions counts the records of answers that came to their end. Others are of
// calls that were given up once the vendor had them, which are billed too.
func completions(of []ledgerRow) (n int) {
	for _, row := range of {
		if row.Outcome == "completed" {
			n++
		}
	}
	return n
}

// ledger reads an organization's records, by request.
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

// pages reads a list to its end; take gives the cursor of the next page.
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

// invoice is what the provider answered: how often, by request.
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
			t.Fatalf("the provider answered a call of nobody's: %s", call.Body)
		}
		times[found[1]]++
	}
	return times
}

// accountCompletions compares the ledger with what customers were told and with what the
// provider answered. The outcome of a call is unknown if it was in flight in the gateway when
// the gateway died, or when the edge died before any content had arrived: the provider has
// begun it, the ledger may lack it, and no customer was told of it.
func (s *soak) accountCompletions(t *testing.T, a *account, kills []kill) {
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
	answered, cents, booked := 0, 0.0, 0.0
	for id, c := range s.calls {
		if c.outcome != succeeded {
			continue
		}
		answered++
		if c.stated && len(rows[id]) > 0 {
			cents, booked = cents+c.cents, booked+rows[id][0].Cents
		}
	}
	a.exactly("completions told to customers, on the ledger", answered, answered-missing())
	a.add("cents told to customers, on the ledger", fmt.Sprintf("%.6f", cents), fmt.Sprintf("%.6f", booked), math.Abs(cents-booked) < 1e-6*max(1, cents))
	invoice := s.invoice(t)
	twice, unasked, billed, repeated := 0, 0, 0, 0
	for id, of := range rows {
		if completions(of) > 1 {
			twice++
		}
		if invoice[id] == 0 && completions(of) > 0 {
			unasked++
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
	least := len(invoice) - fatal*(soakCompleters+soakEmbedders)
	a.add("calls that the provider answered, on the ledger", fmt.Sprintf("%d to %d (in flight at %d kills)", least, len(invoice), fatal), billed, billed >= least)
	a.exactly("calls with two completions on the ledger", 0, twice)
	a.exactly("completions of calls that the provider never answered", 0, unasked)
	a.exactly("calls that the provider answered twice", 0, repeated)
	a.atMost("llm_requests on the bill, of what the provider answered", len(invoice), int(s.harness.counted(t, s.organization, "llm_requests")))
}

// accountBilling holds the edge's counters against what customers were told: every
// success is counted, once, and beyond that only calls whose answer broke off.
func (s *soak) accountBilling(t *testing.T, a *account) {
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
		a.add(metric+" on the bill", fmt.Sprintf("%d to %d (%d answers broke off)", succeeded, succeeded+unknown, unknown), counted, counted >= succeeded && counted <= succeeded+unknown)
	}
}

// What isn't growth: the pools' connections to Postgres, Redis and third parties, which
// a life of some seconds fills until its end, and the 64 MiB of heap that a service
// fills before its collector first runs.
const (
	growthCount = 64
	growthBytes = 64 << 20
)

// accountProcesses wants no process to have ended by itself, and none to hold more in
// the second half of its life than in the first.
func (s *soak) accountProcesses(t *testing.T, a *account, w *watch) {
	t.Helper()
	a.exactly("processes that ended by themselves", 0, len(s.harness.Exits()))
	for _, service := range stack.Services {
		lives, worst := 0, [3]string{}
		holds := true
		for _, l := range w.lives {
			first, second, ok := l.growth()
			if l.member != string(service) || !ok {
				continue
			}
			lives++
			for i, of := range []struct{ first, second, slack, unit int64 }{
				{first.goroutines, second.goroutines, growthCount, 1}, {first.files, second.files, growthCount, 1}, {first.bytes, second.bytes, growthBytes, 1 << 20},
			} {
				worst[i] += fmt.Sprintf(" %d>%d", of.first/of.unit, of.second/of.unit)
				holds = holds && of.second <= of.first+of.first/5+of.slack
			}
		}
		a.add(fmt.Sprintf("%s: goroutines, files, MiB over the halves of %d lives", service, lives), "no growth",
			fmt.Sprintf("%s;%s;%s", worst[0], worst[1], worst[2]), holds && lives > 0)
	}
}

// drained waits for what must come to its end by itself; the account says whether it did.
func (s *soak) drained(t *testing.T, what string, objection func() error) {
	t.Helper()
	if err := await(t.Context(), time.Until(s.over), objection); err != nil {
		t.Logf("%s: %v", what, err)
	}
}
