package inference

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

var (
	used   = &provider.Usage{Input: 10, Output: 20}
	broken = step{err: &provider.Error{Class: apierr.ClassServerError, Text: "broke off"}}
)

func fine() *script { return &script{name: "b", steps: []step{text("from b"), end(used)}} }

// Until content has arrived, a failed stream may move on to another provider; afterwards never.
func TestStreamIsHeldUntilContent(t *testing.T) {
	cases := []struct {
		name  string
		steps []step
		want  string // the text, of a or b
		fails bool
	}{
		{"an error in place of the first event", []step{broken}, "from b", false},
		{"an error behind events without content", []step{{event: provider.Event{Usage: used}}, broken}, "from b", false},
		{"an end without a word", nil, "from b", false},
		{"only a role, then an error", []step{{}, {}, broken}, "from b", false},
		{"an error after content", []step{text("from "), broken}, "from ", true},
		{"a tool call is content", []step{{event: provider.Event{ToolCalls: []provider.ToolCall{{ID: "1", Name: "f"}}}}, broken}, "", true},
		{"an empty answer that says so", []step{end(used)}, "", false},
		{"all well", []step{text("from "), text("a"), end(used)}, "from a", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := setup(t, nil, &script{name: "a", steps: c.steps}, fine())
			s, err := b.StreamChat(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			got, err := read(s)
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("read %q, %v, want %q", got, err, c.want)
			}
			if c.fails {
				refused(t, err, 502, ReasonStreamInterrupted, apierr.ClassServerError)
			}
			for name, s := range b.scripts {
				if calls, closed := s.count(); calls != closed {
					t.Errorf("%s: %d streams opened, %d closed", name, calls, closed)
				}
			}
			if len(b.ledger.entries) != 1 {
				t.Fatalf("%d entries, want one", len(b.ledger.entries))
			}
			want := map[bool]ledger.Outcome{false: ledger.OutcomeCompleted, true: ledger.OutcomeInterrupted}[c.fails]
			if entry := b.ledger.entries[0]; entry.Outcome != want {
				t.Errorf("outcome %s, want %s", entry.Outcome, want)
			}
		})
	}
}

func TestStreamUsage(t *testing.T) {
	cases := []struct {
		name    string
		steps   []step
		take    int // events to read before the stream is closed; -1 reads all
		state   ledger.State
		outcome ledger.Outcome
		usage   provider.Usage
	}{
		{"reported", []step{text("ab"), end(used)}, -1, ledger.StateReported, ledger.OutcomeCompleted, *used},
		{"never reported", []step{text("abcdefgh"), end(nil)}, -1, ledger.StateEstimated, ledger.OutcomeCompleted, provider.Usage{Input: 2, Output: 2}},
		{"the caller leaves", []step{text("abcd"), text("efgh"), end(used)}, 1, ledger.StateEstimated, ledger.OutcomeCancelled, provider.Usage{Input: 2, Output: 1}},
		{"the caller leaves before reading", []step{text("abcd"), end(used)}, 0, ledger.StateEstimated, ledger.OutcomeCancelled, provider.Usage{Input: 2, Output: 1}},
		{
			"reported so far, then cut off",
			[]step{{event: provider.Event{Text: "abcd", Usage: &provider.Usage{Input: 9, Output: 1}}}, broken},
			-1, ledger.StatePartial, ledger.OutcomeInterrupted,
			provider.Usage{Input: 9, Output: 1},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := setup(t, nil, &script{name: "a", steps: c.steps})
			s, err := b.StreamChat(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			for n := 0; n != c.take; n++ {
				if _, err := s.Next(); err != nil {
					break
				}
			}
			s.Close()
			s.Close()
			if len(b.ledger.entries) != 1 {
				t.Fatalf("%d entries, want one", len(b.ledger.entries))
			}
			if e := b.ledger.entries[0]; e.State != c.state || e.Outcome != c.outcome || e.Usage != c.usage {
				t.Errorf("entry %s %s %+v, want %s %s %+v", e.State, e.Outcome, e.Usage, c.state, c.outcome, c.usage)
			}
		})
	}
}

func TestStreamEndsOnce(t *testing.T) {
	b := setup(t, nil, &script{name: "a", steps: []step{text("x"), end(used)}})
	s, err := b.StreamChat(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(s); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v, want EOF", err)
		}
	}
	if len(b.ledger.entries) != 1 || s.FinishReason() != provider.FinishStop {
		t.Errorf("%d entries, finish %q", len(b.ledger.entries), s.FinishReason())
	}
}

func TestStreamClocks(t *testing.T) {
	wait := func(d time.Duration, s step) step { s.wait = d; return s }
	think := step{event: provider.Event{Reasoning: "hm"}}
	cases := []struct {
		name  string
		a, b  []step
		want  string
		fails bool
	}{
		{"slow to begin, another serves", []step{wait(3*time.Second, text("from a")), end(used)}, fine().steps, "from b", false},
		{"slow events without content don't help", []step{{event: provider.Event{Usage: used}}, wait(3*time.Second, text("from a"))}, fine().steps, "from b", false},
		{"thinking is life", []step{wait(1900*time.Millisecond, think), wait(900*time.Millisecond, think), wait(900*time.Millisecond, text("from a")), end(used)}, fine().steps, "from a", false},
		{"thinking that stops is none", []step{think, wait(1100*time.Millisecond, text("from a"))}, fine().steps, "from b", false},
		{"thinking is no content: another may take over", []step{think, think, broken}, fine().steps, "from b", false},
		{"the last has grace", []step{broken}, []step{wait(3*time.Second, text("from b")), end(used)}, "from b", false},
		{"a long pause ends it", []step{text("from"), wait(2*time.Second, text(" a")), end(used)}, fine().steps, "from", true},
		{"short pauses don't", []step{text("from"), wait(900*time.Millisecond, text(" a")), wait(900*time.Millisecond, end(used))}, nil, "from a", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, nil, &script{name: "a", steps: c.a}, &script{name: "b", steps: c.b})
				s, err := b.StreamChat(t.Context(), request())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := read(s); got != c.want || (err != nil) != c.fails {
					t.Errorf("read %q, %v, want %q", got, err, c.want)
				}
			})
		})
	}
}

func TestStreamOfACallerWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, nil, &script{name: "a", steps: []step{text("abcd"), {wait: 900 * time.Millisecond, event: provider.Event{Text: "efgh"}}}}, fine())
		ctx, cancel := context.WithCancel(t.Context())
		s, err := b.StreamChat(ctx, request())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(500*time.Millisecond, cancel)
		start := time.Now()
		_, err = read(s)
		refused(t, err, 499, apierr.ReasonCancelled, "")
		if e := b.ledger.entries[0]; time.Since(start) != 500*time.Millisecond || e.Outcome != ledger.OutcomeCancelled || e.Usage.Output != 1 {
			t.Errorf("ended after %v, entry %+v, want an end at once and what came billed", time.Since(start), e)
		}
	})
}
