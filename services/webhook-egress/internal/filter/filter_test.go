package filter_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
	"switchyard.dev/services/webhook-egress/internal/filter"
)

func engine(tb testing.TB) *filter.Engine {
	tb.Helper()
	e, err := filter.New(func(filter.Verdict) {})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func order(payload string) filter.Event {
	return filter.Event{
		Type: "order.paid", Organization: "acme", Owner: "ann", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Payload: []byte(payload),
	}
}

func TestEvaluate(t *testing.T) {
	e := engine(t)
	event := order(`{"total": 12.5, "count": 3, "big": 9007199254740993, "vip": true, "name": "Ann", "none": null,
		"items": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}], "to": {"country": "DE"}}`)
	for expression, want := range map[string]filter.Verdict{
		"":                                      filter.Matched,
		"true":                                  filter.Matched,
		"event.payload.total > 10":              filter.Matched,
		"event.payload.total > 12.5":            filter.Unmatched,
		"event.payload.count == 3":              filter.Matched,
		"event.payload.count == 3.0":            filter.Matched,
		"event.payload.big == 9007199254740993": filter.Matched,
		"event.payload.big == 9007199254740992": filter.Unmatched,
		"event.payload.vip && event.payload.to.country in ['DE', 'AT']": filter.Matched,
		"event.payload.name.startsWith('A')":                            filter.Matched,
		"event.payload['none'] == null":                                 filter.Matched,
		"event.payload.items.exists(i, i.sku == 'b' && i.n > 1)":        filter.Matched,
		"event.payload.items.all(i, i.n > 1)":                           filter.Unmatched,
		"size(event.payload.items) == 2":                                filter.Matched,
		"event.type == 'order.paid' && event.organization_id == 'acme'": filter.Matched,
		"event.owner_id == 'ann'":                                       filter.Matched,
		"event.created_at > timestamp('2026-01-01T00:00:00Z')":          filter.Matched,
		"event.payload.absent == 1":                                     filter.Unmatched,
		"event.payload.absent != 1":                                     filter.Unmatched,
		"event.payload.to.absent.deeper == 1":                           filter.Unmatched,
		"event.payload.items[7].n == 1":                                 filter.Unmatched,
		"has(event.payload.absent)":                                     filter.Unmatched,
		"!has(event.payload.absent) || event.payload.absent == 1":       filter.Matched,
		"event.payload.name > 3":                                        filter.Failed,
		"event.payload.count / 0 == 1":                                  filter.Failed,
		"event.payload.name":                                            filter.Failed,
	} {
		if got := e.Judge(event).Evaluate(expression); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
	if got := e.Judge(order("[1]")).Evaluate("true"); got != filter.Failed {
		t.Errorf("a payload that is no object: %q", got)
	}
}

func TestCheck(t *testing.T) {
	e := engine(t)
	for _, good := range []string{
		"", "event.payload.a.b > 10", "event.payload.xs.exists(x, x.ys.exists(y, y == 1))", "event.owner_id != ''",
		"event.payload.name.contains('a') && size(event.payload.xs) < 10", "event.payload.a",
	} {
		if err := e.Check("acme", good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"event.payload.a >":       "line 1, column 18: ",
		"1 + 1":                   "line 1, column 1: is of type int, must be bool",
		"event.kind == 'a'":       "line 1, column 1: undeclared reference to 'event'",
		"event.type == 1":         "line 1, column 12: found no matching overload",
		"true &&\n  payload":      "line 2, column 3: undeclared reference to 'payload'",
		"event.type.matches('a')": "line 1, column 19: undeclared reference to 'matches'",
		"event.payload.a.exists(x, x.exists(y, y.exists(z, z.exists(w, w == x))))": "costs too much",
		strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60):                 "line ",
		"true || '" + strings.Repeat("a", filter.MaxSize) + "' == ''":              "line ",
	} {
		err := apierr.From(e.Check("acme", bad))
		if err == nil || err.Kind != apierr.KindInvalid || !strings.HasPrefix(err.Text, "filter: "+want) {
			t.Errorf("%.60q: %v, want %q", bad, err, want)
		}
	}
}

// What an expression does at run time is bounded, whatever the payload: for one endpoint, and for all of an event.
func TestCostIsBounded(t *testing.T) {
	e := engine(t)
	list := make([]any, 5000)
	for i := range list {
		list[i] = strings.Repeat("x", 80)
	}
	payload, err := json.Marshal(map[string]any{"xs": list})
	if err != nil {
		t.Fatal(err)
	}
	event := order(string(payload))
	for _, costly := range []string{
		"event.payload.xs.all(x, event.payload.xs.all(y, x == y))",
		"event.payload.xs.all(x, event.payload == event.payload)",
		"event.payload.xs.all(x, !('y' in event.payload.xs))",
		"event.payload.xs.map(x, x + x + x + x + x + x + x + x + x + x + x + x + x).size() > 1",
	} {
		if got := e.Judge(event).Evaluate(costly); got != filter.Costly {
			t.Errorf("%s: %q, want %q", costly, got, filter.Costly)
		}
	}
	judge := e.Judge(event)
	for i := range 20 {
		got := judge.Evaluate("event.payload.xs.all(x, event.payload.xs.all(y, x == y))")
		if got != filter.Costly {
			t.Errorf("%d: %q", i, got)
		}
	}
	if got := judge.Evaluate("true"); got != filter.Costly {
		t.Errorf("after the budget of the event: %q, want %q", got, filter.Costly)
	}
}

// An organization's events compile a bounded part of its filters. The filters that are kept are judged all the same.
func TestCompilationsAreBounded(t *testing.T) {
	e := engine(t)
	event := order(`{"a": 1}`)
	judged := func() (n int) {
		judge := e.Judge(event)
		for n < 1000 && judge.Evaluate(fmt.Sprintf("event.payload.a == 1 || '%s' == '%d'", strings.Repeat("x", 900), n)) == filter.Matched {
			n++
		}
		return n
	}
	first := judged()
	if first < 50 || first > 250 {
		t.Errorf("the first event compiled %d of 1,000 filters", first)
	}
	if second := judged(); second < first || second > first+50 {
		t.Errorf("the second event judged %d filters, want about the %d that were kept", second, first)
	}
	other := event
	other.Organization = "other"
	if got := e.Judge(other).Evaluate("event.payload.a == 1"); got != filter.Matched {
		t.Errorf("another organization's filter: %q", got)
	}
}

// An organization whose filters take more than its share of the processors gets its events unfiltered until the share has
// grown again. Other organizations' filters are evaluated all the same.
func TestEvaluationsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t)
		hostile, other := order(`{"xs":[`+strings.Repeat("1,", 999)+`1]}`), order(`{"a":1}`)
		hostile.Organization, other.Organization = "hostile", "other"
		const costly, cheap = "event.payload.xs.all(x, event.payload.xs.all(y, x == y))", "event.payload.a == 2"
		evaluated := 0
		for e.Judge(hostile).Evaluate("event.payload.xs[0] == 2") == filter.Unmatched {
			e.Judge(hostile).Evaluate(costly)
			evaluated++
		}
		if want := 250 * runtime.GOMAXPROCS(0); evaluated < want*9/10 || evaluated > want {
			t.Errorf("%d evaluations of 2 ms at once, want about %d", evaluated, want)
		}
		if got := e.Judge(other).Evaluate(cheap); got != filter.Unmatched {
			t.Errorf("another organization's filter: %q, want %q", got, filter.Unmatched)
		}
		time.Sleep(time.Second)
		if got := e.Judge(hostile).Evaluate("event.payload.xs[0] == 2"); got != filter.Unmatched {
			t.Errorf("a second later: %q, want %q", got, filter.Unmatched)
		}
	})
}

func TestFilterGrowsLinearly(t *testing.T) {
	e := engine(t)
	growth.Linear(t, growth.Row{Name: "elements", Top: 1 << 15, Make: func(n int) func() {
		event := order(`{"xs":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, n), ",") + `]}`)
		event.Organization = fmt.Sprint("with ", n) // Each has a share of the processors.
		return func() { e.Judge(event).Evaluate("event.payload.xs.exists(x, x.a == 2)") }
	}})
	check := func(text string) { _ = e.Check(text, text) }
	growth.Linear(t, growth.EachText(growth.UpTo(filter.MaxSize, growth.Text), check)...)
	growth.Linear(t, growth.EachText(growth.UpTo(filter.MaxSize, []growth.Input{
		growth.Repeat("or", "true", "||true", ""), growth.Repeat("fields", "event.payload", ".a", " == 1"),
		growth.Repeat("list", "1 in [1", ",1", "]"), growth.Nest("parentheses", "(", "true", ")"),
		growth.Nest("lists", "[", "1", "]"), growth.Repeat("not", "", "!", "true"), growth.Repeat("ternary", "", "true?true:", "true"),
	}), check)...)
}

// An expression that matches an event compiles; the estimate of its cost may refuse it all the same.
func FuzzFilter(f *testing.F) {
	e := engine(f)
	f.Add("event.payload.xs.exists(x, x.a == 2)", `{"xs":[{"a":1}]}`)
	f.Add("event.payload.a > 1 || event.type == 'x'", `{"a":1e999}`)
	f.Fuzz(func(t *testing.T, expression, payload string) {
		verdict, err := e.Judge(order(payload)).Evaluate(expression), e.Check(expression, expression)
		if err == nil {
			return
		}
		refusal := apierr.From(err)
		if refusal.Kind != apierr.KindInvalid {
			t.Errorf("%q is refused as %v", expression, refusal.Kind)
		}
		if verdict == filter.Matched && !strings.Contains(refusal.Text, "costs too much") {
			t.Errorf("%q matches, and is refused: %s", expression, refusal.Text)
		}
	})
}
