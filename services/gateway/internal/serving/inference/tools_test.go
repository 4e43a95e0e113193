package inference

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// decisions are approvals by their ref.
type decisions map[string]approval.Approval

func (d decisions) Get(_ context.Context, organization, ref string) (approval.Approval, error) {
	a, ok := d[ref]
	switch {
	case ref == "away":
		return a, errors.New("the database is away")
	case !ok || a.Organization != organization:
		return a, approval.ErrNotFound
	}
	return a, nil
}

// decide makes approvals of the tool deploy, one for each way that it may stand.
func decide() decisions {
	all := make(decisions)
	add := func(ref string, status approval.Status, change func(*approval.Approval)) {
		a := approval.New(approval.Approval{Organization: "acme", Tool: "deploy"}, time.Hour, time.Now())
		a.Status = status
		if change != nil {
			change(&a)
		}
		all[ref] = a
	}
	add("approved", approval.Approved, nil)
	add("exact", approval.Approved, func(a *approval.Approval) { a.Arguments = []byte(`{"env": "prod"}`) })
	add("pending", approval.Pending, nil)
	add("denied", approval.Denied, nil)
	add("expired", approval.Pending, func(a *approval.Approval) { a.ExpiresAt = time.Now() })
	add("another tool", approval.Approved, func(a *approval.Approval) { a.Tool = "drop" })
	add("another run", approval.Approved, func(a *approval.Approval) { a.Run = "r2" })
	add("another organization", approval.Approved, func(a *approval.Approval) { a.Organization = "bolt" })
	return all
}

// guarded is a bench whose policy wants approvals of deploy and drop.
func guarded(t *testing.T, s *script) *bench {
	t.Helper()
	b := setup(t, nil, s)
	b.Fleet().NeedsApproval = func(tool string) bool { return tool == "deploy" || tool == "drop" }
	b.Approvals = decide()
	return b
}

func asking(ref string) *Request {
	r := request()
	r.ApprovalRef, r.Run = ref, "r1"
	return r
}

func called(name, arguments string) provider.ToolCall {
	return provider.ToolCall{ID: "1", Name: name, Arguments: arguments}
}

var refusals = map[string]apierr.Reason{
	"": ReasonApprovalRequired, "nobody knows": ReasonApprovalRequired, "pending": ReasonApprovalRequired,
	"denied": ReasonApprovalDenied, "expired": approval.ReasonExpired,
	"another tool": ReasonApprovalRequired, "another run": ReasonApprovalRequired, "another organization": ReasonApprovalRequired,
}

func TestAnswerWithAToolThatNeedsApproval(t *testing.T) {
	s := &script{name: "a", answer: provider.Answer{
		Text: "I will", Usage: used, ToolCalls: []provider.ToolCall{called("look", "{}"), called("deploy", `{"env":"prod"}`)},
	}}
	for ref, reason := range refusals {
		t.Run("reference "+ref, func(t *testing.T) {
			b := guarded(t, s)
			_, err := b.Chat(t.Context(), asking(ref))
			if e := refused(t, err, 403, reason, apierr.ClassPolicy); !strings.HasPrefix(e.Text, `tool "deploy": `) {
				t.Errorf("%q: %s", ref, e.Text)
			}
			checkBilled(t, b, billedRow{"a", ledger.OutcomeAborted, ledger.StateReported, *used})
			if b.ledger.entries[0].Cost == 0 {
				t.Error("it costs nothing")
			}
		})
	}
	for _, ref := range []string{"approved", "exact"} {
		b := guarded(t, s)
		answer, err := b.Chat(t.Context(), asking(ref))
		if err != nil || len(answer.ToolCalls) != 2 || b.ledger.entries[0].Outcome != ledger.OutcomeCompleted {
			t.Errorf("%s: %v", ref, err)
		}
	}
	_, err := guarded(t, s).Chat(t.Context(), asking("away"))
	refused(t, err, 503, apierr.ReasonUnavailable, apierr.ClassTransient)

	s.answer.ToolCalls[1].Arguments = `{"env":"dev"}`
	_, err = guarded(t, s).Chat(t.Context(), asking("exact"))
	refused(t, err, 403, ReasonApprovalRequired, apierr.ClassPolicy)
}

// Calls that only the vendor's own words hold are calls too.
func TestNativeAnswerWithAToolThatNeedsApproval(t *testing.T) {
	for _, native := range []string{
		`{"choices":[{"message":{"function_call":{"name":"deploy","arguments":"{}"}}}]}`,
		`{"choices":[{},{"message":{"tool_calls":[{"type":"custom","custom":{"name":"deploy","input":"x"}}]}}]}`,
		`{"content":[{"type":"mcp_tool_use","name":"deploy","input":{}}]}`,
	} {
		s := &script{name: "a", answer: provider.Answer{Usage: used, Native: []byte(native)}}
		for ref, reason := range refusals {
			_, err := guarded(t, s).Chat(t.Context(), asking(ref))
			refused(t, err, 403, reason, apierr.ClassPolicy)
		}
		if _, err := guarded(t, s).Chat(t.Context(), asking("approved")); err != nil {
			t.Errorf("approved: %v", err)
		}
		_, err := guarded(t, s).Chat(t.Context(), asking("exact"))
		refused(t, err, 403, ReasonApprovalRequired, apierr.ClassPolicy)
	}
	harmless := `{"content":[{"type":"tool_use","name":"look","input":{"name":"deploy"}}]}`
	s := &script{name: "a", answer: provider.Answer{Usage: used, ToolCalls: []provider.ToolCall{called("look", `{"name":"deploy"}`)}, Native: []byte(harmless)}}
	if _, err := guarded(t, s).Chat(t.Context(), asking("")); err != nil {
		t.Errorf("an argument that is called like a tool: %v", err)
	}
}

// delta is one event of a tool call in a stream.
func delta(index int, name, arguments string) step {
	return step{event: provider.Event{ToolCalls: []provider.ToolCall{{Index: index, Name: name, Arguments: arguments}}}}
}

// collect takes a stream to its end, and writes down what came.
func collect(t *testing.T, b *bench, r *Request) (said string, err error) {
	t.Helper()
	s, err := b.StreamChat(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		event, err := s.Next()
		if errors.Is(err, io.EOF) {
			return said, nil
		}
		if err != nil {
			if _, again := s.Next(); !errors.Is(again, err) {
				t.Errorf("%v after %v", again, err)
			}
			return said, err
		}
		said += event.Text
		for _, call := range event.ToolCalls {
			said += "<" + call.Name + call.Arguments + ">"
		}
	}
}

func TestStreamWithAToolThatNeedsApproval(t *testing.T) {
	steps := []step{
		text("I will "), delta(0, "look", "{}"), delta(1, "deploy", ""), delta(1, "", `{"env":`), text("now"), delta(1, "", `"prod"}`),
		delta(2, "see", "{}"), end(used),
	}
	for ref, reason := range refusals {
		b := guarded(t, &script{name: "a", steps: steps})
		said, err := collect(t, b, asking(ref))
		refused(t, err, 403, reason, apierr.ClassPolicy)
		if said != "I will <look{}>" {
			t.Errorf("%q: the caller got %q", ref, said)
		}
		if entry := b.ledger.entries[0]; len(b.ledger.entries) != 1 || entry.Outcome != ledger.OutcomeAborted || entry.Usage.Output == 0 {
			t.Errorf("%q: billed %+v", ref, entry)
		}
		if calls, closed := b.scripts["a"].count(); calls != 1 || closed != 1 {
			t.Errorf("%q: %d streams opened, %d closed", ref, calls, closed)
		}
	}
	for _, ref := range []string{"approved", "exact"} {
		b := guarded(t, &script{name: "a", steps: steps})
		said, err := collect(t, b, asking(ref))
		if want := `I will <look{}><deploy><{"env":>now<"prod"}><see{}>`; err != nil || said != want {
			t.Errorf("%s: %q, %v", ref, said, err)
		}
		if entry := b.ledger.entries[0]; entry.Outcome != ledger.OutcomeCompleted || entry.State != ledger.StateReported {
			t.Errorf("%s: billed %+v", ref, entry)
		}
	}
}

// What is approved with its arguments is held until they are known.
func TestStreamWithOtherArguments(t *testing.T) {
	b := guarded(t, &script{name: "a", steps: []step{text("a"), delta(0, "deploy", `{"env":`), delta(0, "", `"dev"}`), end(used)}})
	said, err := collect(t, b, asking("exact"))
	refused(t, err, 403, ReasonApprovalRequired, apierr.ClassPolicy)
	if said != "a" {
		t.Errorf("the caller got %q, want a", said)
	}
	checkBilled(t, b, billedRow{"a", ledger.OutcomeAborted, ledger.StateReported, *used})
	b = guarded(t, &script{name: "a", steps: []step{delta(0, "deploy", strings.Repeat(" ", maxWithheld/2)), delta(0, "", " "), end(used)}})
	said, err = collect(t, b, asking("exact"))
	refused(t, err, 403, ReasonApprovalRequired, apierr.ClassPolicy)
	if said != "" {
		t.Errorf("the caller got %d bytes", len(said))
	}
}

// Vendors name calls late, in pieces, or again and again.
func TestStreamThatNamesItsCallsOddly(t *testing.T) {
	for name, test := range map[string]struct {
		steps    []step
		ref      string
		want     string
		withheld bool
	}{
		"late, needing":         {[]step{delta(0, "", "{"), delta(0, "deploy", "}")}, "", "", true},
		"late, not needing":     {[]step{delta(0, "", "{"), delta(0, "look", "}")}, "", "<{><look}>", false},
		"late, approved":        {[]step{delta(0, "", "{"), delta(0, "deploy", "}")}, "approved", "<{><deploy}>", false},
		"in pieces":             {[]step{delta(0, "dep", ""), delta(0, "loy", "{}")}, "", "<dep>", true},
		"again and again":       {[]step{delta(0, "deploy", `{"env":`), delta(0, "deploy", `"prod"}`)}, "exact", `<deploy{"env":><deploy"prod"}>`, false},
		"another, afterwards":   {[]step{delta(0, "look", `{"env":`), delta(0, "deploy", `"prod"}`)}, "exact", `<look{"env":>`, true},
		"never":                 {[]step{delta(0, "", "{}")}, "", "<{}>", false},
		"two in one event":      {[]step{{event: provider.Event{ToolCalls: []provider.ToolCall{{Name: "look"}, {Index: 1, Name: "deploy"}}}}}, "", "", true},
		"text in the event":     {[]step{{event: provider.Event{Text: "so", ToolCalls: []provider.ToolCall{{Name: "deploy"}}}}}, "", "so", true},
		"the first is approved": {[]step{delta(0, "deploy", "{}"), delta(1, "drop", "{}")}, "approved", "<deploy{}>", true},
	} {
		b := guarded(t, &script{name: "a", steps: append(test.steps, end(used))})
		said, err := collect(t, b, asking(test.ref))
		if said != test.want || (err != nil) != test.withheld {
			t.Errorf("%s: %q, %v", name, said, err)
		}
		if test.withheld {
			refused(t, err, 403, ReasonApprovalRequired, apierr.ClassPolicy)
		}
	}
}

// Frames that a face relays are held like what they say.
func TestNativeStreamWithAToolThatNeedsApproval(t *testing.T) {
	frame := func(native string, calls ...provider.ToolCall) step {
		return step{event: provider.Event{Native: []byte(native), ToolCalls: calls}}
	}
	for name, steps := range map[string][]step{
		"a call":                 {frame(`{"type":"content_block_start","content_block":{"type":"tool_use","name":"deploy","input":{}}}`, called("deploy", ""))},
		"a kind that isn't read": {frame(`{"choices":[{"delta":{"function_call":{"name":"deploy"}}}]}`)},
	} {
		b := guarded(t, &script{name: "a", steps: append(append([]step{frame(`{"type":"begin"}`)}, steps...), frame(`{"type":"rest"}`), end(used))})
		s, err := b.StreamChat(t.Context(), asking(""))
		if err != nil {
			t.Fatal(err)
		}
		for {
			event, err := s.Next()
			if err != nil {
				refused(t, err, 403, ReasonApprovalRequired, apierr.ClassPolicy)
				break
			}
			if !strings.Contains(string(event.Native), "begin") {
				t.Errorf("%s: the caller got %s", name, event.Native)
			}
		}
		s.Close()
	}
}
