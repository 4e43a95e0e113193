package approver_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pending is the event of an approval that waits for an hour.
func pending(number int, ref string, at time.Time) alert.Event {
	return alert.Event{
		Cursor: fmt.Sprint(number), ID: fmt.Sprint("e", number), Organization: "acme", Type: "switchyard.approval.pending", RecordedAt: at,
		Data: map[string]any{
			"ref": ref, "status": "pending", "server_id": "ci", "tool": "deploy", "rule": "deployments", "approvers": "default", "proof": "page",
			"requested_by": "agent-3", "expires_at": at.Add(time.Hour).Format(time.RFC3339),
		},
	}
}

// decided is the event of a decision.
func decided(number int, ref, status, by string, at time.Time) alert.Event {
	e := pending(number, ref, at)
	e.Type = "switchyard.approval.decided"
	e.Data["status"], e.Data["decided_by"] = status, by
	return e
}

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*alert.Event)
		want   string
	}{
		"one that waits":              {func(*alert.Event) {}, "waiting default page"},
		"one that a caller created":   {func(e *alert.Event) { e.Data["approvers"], e.Data["proof"] = "", "" }, "waiting default "},
		"one of an older gateway":     {func(e *alert.Event) { delete(e.Data, "approvers") }, "waiting default page"},
		"an approved one":             {func(e *alert.Event) { *e = decided(1, "r", "approved", "ann", began) }, "approved default page"},
		"a superseded one":            {func(e *alert.Event) { e.Type = "switchyard.approval.superseded" }, "expired default page"},
		"one that ended otherwise":    {func(e *alert.Event) { *e = decided(1, "r", "withdrawn", "ann", began) }, ""},
		"another event":               {func(e *alert.Event) { e.Type = "switchyard.run.exhausted" }, ""},
		"no reference":                {func(e *alert.Event) { e.Data["ref"] = "" }, ""},
		"a reference that is a path":  {func(e *alert.Event) { e.Data["ref"] = "../admin" }, ""},
		"a reference that is a list":  {func(e *alert.Event) { e.Data["ref"] = []any{"r"} }, ""},
		"no tool":                     {func(e *alert.Event) { delete(e.Data, "tool") }, ""},
		"no organization":             {func(e *alert.Event) { e.Organization = "" }, ""},
		"an expiry that is no moment": {func(e *alert.Event) { e.Data["expires_at"] = "soon" }, ""},
	} {
		e := pending(1, "r", began)
		tt.change(&e)
		a, ok := approver.Read(&e)
		if got := fmt.Sprint(a.State, " ", a.Group, " ", a.Proof); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s: %s %t, want %q", name, got, ok, tt.want)
		}
	}
	e := pending(1, "r", began)
	e.Data["tool"] = "de\u202eploy\r\n\x00" + strings.Repeat("y", 1000)
	if a, ok := approver.Read(&e); !ok || len(a.Tool) > 256 || strings.ContainsAny(a.Tool, "\u202e\r\n\x00") {
		t.Errorf("the tool is %q", a.Tool)
	}
}

// Each channel of each step reaches the members that have it, but not who asks; a conversation has one message.
func TestPlan(t *testing.T) {
	g := group()
	a := approver.Approval{Organization: "acme", Ref: "r", At: began}
	for asker, want := range map[string][]string{
		"eve": {"0 in_app ann", "0 in_app bob", "0 web_push ann", "0 web_push bob", "0 email ann", "0 slack ann", "600 slack #C01", "600 in_app bob"},
		"ANN": {"0 in_app bob", "0 web_push bob", "600 slack #C01", "600 in_app bob"},
		"bob": {"0 in_app ann", "0 web_push ann", "0 email ann", "0 slack ann", "600 slack #C01"},
	} {
		a.RequestedBy = asker
		var got []string
		for _, n := range approver.Plan(a, &g) {
			to := n.User
			if n.SlackChannel != "" {
				to = "#" + n.SlackChannel
			}
			got = append(got, fmt.Sprintf("%.0f %s %s", n.DueAt.Sub(began).Seconds(), n.Channel, to))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("asked by %q (-want +got):\n%s", asker, diff)
		}
	}
}

func TestAfter(t *testing.T) {
	for state, want := range map[string]string{
		"planned 0": "cancelled", "planned 3": "cancelled", "prepared 0": "prepared", "prepared 1": "cancelled", "sent 0": "closing",
		"closing 1": "closing", "closed 0": "closed", "cancelled 0": "cancelled", "refused 0": "refused",
	} {
		var n approver.Notice
		if _, err := fmt.Sscan(state, &n.State, &n.Attempts); err != nil {
			t.Fatal(err)
		}
		if got := approver.After(&n); got != want {
			t.Errorf("%s becomes %s, want %s", state, got, want)
		}
	}
}

func TestRetry(t *testing.T) {
	last := time.Duration(0)
	for failures := range 100 {
		wait := approver.Retry(failures)
		if wait < last || wait < time.Second || wait > time.Minute {
			t.Errorf("after %d failures %s, after one less %s", failures, wait, last)
		}
		last = wait
	}
}

// No message lets a click approve what takes the page, and none has a link that is not its member's.
func TestAsk(t *testing.T) {
	public := &url.URL{Scheme: "https", Host: "api.example.com"}
	e := pending(1, "r1", began)
	a, _ := approver.Read(&e)
	g := group()
	got := map[string]string{}
	for _, proof := range []string{"page", "link"} {
		a.Proof = proof
		for _, n := range approver.Plan(a, &g) {
			n.ID = "ntc_1"
			f := approver.Facts{Member: g.Member(n.User), Cents: 12.5, Public: public, Now: began, Version: "v1"}
			if n.User != "" {
				f.Token = strings.Repeat("ab", 32)
			}
			m := approver.Ask(&n, f)
			var buttons []string
			for _, b := range m.Buttons {
				way := b.Value
				if b.URL != "" {
					way = "link"
				}
				buttons = append(buttons, b.ID+":"+way)
			}
			to := m.User + m.Email + m.Slack
			got[fmt.Sprint(proof, " ", n.Channel, " ", to)] = strings.Join(buttons, " ")
			if has := n.User != "" && n.Channel != alert.InApp; (m.Secret != "") != has || strings.Contains(strings.Replace(fmt.Sprint(m), m.Secret, "", 1), "abab") {
				t.Errorf("%s to %s has the token %t: %+v", n.Channel, to, !has, m)
			}
			if n.Channel == alert.InApp && (m.URL != "https://api.example.com/decisions/of/r1/" || strings.Contains(fmt.Sprint(m), "{secret}")) {
				t.Errorf("the record leads to %+v", m)
			}
			if want := "Asked for by: agent-3\nTool: ci/deploy\nPrice: 12.5 cents\nRule: deployments\nExpires at: 2 January 2026, 04:04:05 UTC"; !strings.HasPrefix(m.Body, want) {
				t.Errorf("the message is %s, want %s", m.Body, want)
			}
			if m.Subject != "Approval needed: ci/deploy" || m.Repeated != "approval-ntc_1" {
				t.Errorf("subject %q, key %q", m.Subject, m.Repeated)
			}
			if n.Channel == alert.WebPush && (m.Decide == nil || m.Decide.Version != "v1" || m.Decide.Proof != proof || m.TTL != 3600 || len(m.Topic) != 32) {
				t.Errorf("push %+v", m)
			}
		}
	}
	want := map[string]string{
		"page in_app ann": "open:link", "page in_app bob": "open:link", "page email ann@example.com": "open:link",
		"page web_push ann": "open:link deny:link", "page web_push bob": "open:link deny:link",
		"page slack U01": "deny:ntc_1 open:link", "page slack C01": "deny:ntc_1",
		"link in_app ann": "open:link", "link in_app bob": "open:link", "link email ann@example.com": "open:link",
		"link web_push ann": "approve:link deny:link", "link web_push bob": "approve:link deny:link",
		"link slack U01": "approve:ntc_1 deny:ntc_1 open:link", "link slack C01": "approve:ntc_1 deny:ntc_1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("buttons (-want +got):\n%s", diff)
	}
}

func TestResult(t *testing.T) {
	got := map[string]string{}
	for _, state := range []string{"approved", "denied", "expired"} {
		n := approver.Notice{ID: "ntc_1", Channel: "email", Approval: approver.Approval{Tool: "deploy", RequestedBy: "agent-3", State: state}}
		if state != "expired" {
			n.Approval.DecidedBy = "ann"
		}
		m := approver.Result(&n)
		got[m.Subject] = m.Body
		if m.Repeated != "approval-ntc_1-closed" || len(m.Buttons) != 0 {
			t.Errorf("%+v", m)
		}
	}
	want := []string{"Approved: deploy", "Denied: deploy", "Expired: deploy"}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) || got[want[0]] != "This call is approved by ann.\nAsked for by: agent-3\nTool: deploy" || got[want[2]] != "This call is expired.\nAsked for by: agent-3\nTool: deploy" {
		t.Errorf("results %v", got)
	}
}
