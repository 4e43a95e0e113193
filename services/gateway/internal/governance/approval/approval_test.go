package approval

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/content/canonical"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestNew(t *testing.T) {
	a, b := New(Approval{Tool: "deploy"}, 0, noon), New(Approval{Tool: "deploy"}, time.Minute, noon)
	if a.Ref == b.Ref || !regexp.MustCompile(`^apr_[A-Z2-7]{26,}$`).MatchString(a.Ref) {
		t.Errorf("refs %q and %q, want 26 or more random characters of 32, which are 130 bits", a.Ref, b.Ref)
	}
	if a.Status != Pending || a.ExpiresAt.Sub(noon) != 15*time.Minute || b.ExpiresAt.Sub(noon) != time.Minute {
		t.Errorf("%s until %s and %s", a.Status, a.ExpiresAt, b.ExpiresAt)
	}
}

func TestTransitions(t *testing.T) {
	for name, test := range map[string]struct {
		status Status
		event  Event
		after  time.Duration
		want   Status
		err    error
	}{
		"approve":                {Pending, Approve, 0, Approved, nil},
		"deny":                   {Pending, Deny, 0, Denied, nil},
		"in the last moment":     {Pending, Approve, DefaultTTL - 1, Approved, nil},
		"in the first too late":  {Pending, Approve, DefaultTTL, Expired, ErrExpired},
		"deny too late":          {Pending, Deny, time.Hour, Expired, ErrExpired},
		"approve twice":          {Approved, Approve, 0, Approved, ErrDecided},
		"deny what is approved":  {Approved, Deny, 0, Approved, ErrDecided},
		"approve what is denied": {Denied, Approve, time.Hour, Denied, ErrDecided},
		"approve what expired":   {Expired, Approve, 0, Expired, ErrExpired},
		"lapse is no decision":   {Approved, Lapse, time.Hour, Approved, ErrDecided},
	} {
		a := New(Approval{}, 0, noon)
		a.Status = test.status
		got, err := a.Decide(Decision{Event: test.event, By: "ada", Reason: "why"}, noon.Add(test.after))
		if got.Status != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %s, %v", name, got.Status, err)
		}
		if decided := err == nil; decided != (got.DecidedBy == "ada") || decided != (got.Reason == "why") || decided == got.DecidedAt.IsZero() {
			t.Errorf("%s: decided by %q at %s because %q", name, got.DecidedBy, got.DecidedAt, got.Reason)
		}
	}
}

// An approval whose call was closed while it waited is superseded from then on, and can't be decided; one that had expired, or
// was decided, stays so.
func TestSuperseded(t *testing.T) {
	for name, test := range map[string]struct {
		status Status
		state  State
		ended  time.Duration // after its time was up
		at     time.Duration // the same
		want   Status
	}{
		"closed while it waited": {Pending, Closed, 0, 0, Superseded},
		"a moment before":        {Pending, Closed, -time.Microsecond, time.Hour, Superseded},
		"closed when it expired": {Pending, Closed, time.Second, time.Minute, Expired},
		"not closed":             {Pending, Waiting, 0, 0, Expired},
		"its time is not up":     {Pending, Waiting, 0, -1, Pending},
		"approved":               {Approved, Closed, 0, time.Hour, Approved},
		"denied":                 {Denied, Closed, 0, time.Hour, Denied},
	} {
		a := New(Approval{Call: &Execution{State: test.state}}, 0, noon)
		a.Status, a.Call.EndedAt = test.status, a.ExpiresAt.Add(test.ended)
		now := a.ExpiresAt.Add(test.at)
		if got := a.At(now).Status; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if test.want != Superseded {
			continue
		}
		_, decided := a.Decide(Decision{Event: Approve, By: "ada"}, now)
		_, minted := a.Mint("secret", "ada", "email", now)
		_, _, byToken := a.DecideBy(&Token{Approver: "ada"}, TokenDecision{Event: Deny}, now)
		if !errors.Is(decided, ErrExpired) || !errors.Is(minted, ErrExpired) || !errors.Is(byToken, ErrTokenExpired) {
			t.Errorf("%s: %v, %v, %v", name, decided, minted, byToken)
		}
	}
}

// In any order of events, an approval is decided once, in time, and the decision stays.
func TestDecisionsAreFinal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, now := New(Approval{}, time.Minute, noon), noon
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			before := a.At(now)
			event := rapid.SampledFrom([]Event{Approve, Deny}).Draw(t, "event")
			after, err := a.Decide(Decision{Event: event, By: "ada"}, now)
			switch {
			case (err == nil) != (before.Status == Pending):
				t.Fatalf("%s of a %s approval: %v", event, before.Status, err)
			case err != nil && after.Status != before.Status:
				t.Fatalf("%s became %s by a refused decision", before.Status, after.Status)
			case before.Status == Pending && !now.Before(a.ExpiresAt):
				t.Fatalf("pending at %s, though it ends at %s", now, a.ExpiresAt)
			}
			if err == nil {
				a = after
			}
		}
	})
}

func TestCovers(t *testing.T) {
	a := Approval{Organization: "acme", Tool: "deploy", Run: "r1", Arguments: []byte(`{"env": "prod", "n": 1.0, "list": [1, {"a": 2}]}`)}
	call := Call{Organization: "acme", Run: "r1", Tool: "deploy", Arguments: `{"n":1.0,"list":[1,{"a":2}],"env":"prod"}`}
	if !a.Covers(call) {
		t.Fatal("the same call is not covered")
	}
	for name, spoil := range map[string]func(*Call){
		"another organization": func(c *Call) { c.Organization = "bolt" },
		"another tool":         func(c *Call) { c.Tool = "deploy2" },
		"another run":          func(c *Call) { c.Run = "r2" },
		"no run":               func(c *Call) { c.Run = "" },
		"another value":        func(c *Call) { c.Arguments = `{"env":"dev","n":1.0,"list":[1,{"a":2}]}` },
		"another order":        func(c *Call) { c.Arguments = `{"env":"prod","n":1.0,"list":[{"a":2},1]}` },
		"another number":       func(c *Call) { c.Arguments = `{"env":"prod","n":1,"list":[1,{"a":2}]}` },
		"one more":             func(c *Call) { c.Arguments = `{"env":"prod","n":1.0,"list":[1,{"a":2}],"x":1}` },
		"a name twice":         func(c *Call) { c.Arguments = `{"env":"dev","env":"prod","n":1.0,"list":[1,{"a":2}]}` },
		"twice within":         func(c *Call) { c.Arguments = `{"env":"prod","n":1.0,"list":[1,{"a":3,"a":2}]}` },
		"something after it":   func(c *Call) { c.Arguments += ` {}` },
		"cut off":              func(c *Call) { c.Arguments = c.Arguments[:10] },
		"none":                 func(c *Call) { c.Arguments = "" },
	} {
		other := call
		spoil(&other)
		if a.Covers(other) {
			t.Errorf("%s is covered", name)
		}
	}
	a.Arguments, a.Run = nil, ""
	call.Arguments, call.Run = "no JSON", "r7"
	if !a.Covers(call) || !a.AnyArguments() {
		t.Error("an approval of any arguments in any run doesn't cover a call")
	}
	if null := (Approval{Arguments: []byte("null")}); null.AnyArguments() || null.Covers(Call{Arguments: "{}"}) || !null.Covers(Call{Arguments: "null"}) {
		t.Error("arguments of null are not arguments")
	}
}

// Different invalid UTF-8 decodes to the same character, but does not count as equal.
func TestBrokenTextIsNotTheSame(t *testing.T) {
	for _, pair := range [][2]string{{"{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}"}, {`{"a":"\ud800"}`, `{"a":"\ud801"}`}} {
		if digest([]byte(pair[0])) == digest([]byte(pair[1])) {
			t.Errorf("%q is the same as %q", pair[0], pair[1])
		}
	}
}

func FuzzDigest(f *testing.F) {
	f.Add([]byte(`{"a":1,"a":[{}]}`))
	f.Add([]byte(`{"a":{"a":1},"b":["a","a"]}`))
	f.Add([]byte(`}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := canonical.AsWritten(text)
		isJSON := err == nil
		if same := digest(text) == digest(append([]byte(" "), text...)); same != isJSON {
			t.Errorf("a space before %q: the same: %t, canonical: %t", text, same, isJSON)
		}
	})
}

// Arguments that are nested too deeply to be decoded are compared byte by byte.
func TestArgumentsNestedTooDeeply(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1<<20)
	a := Approval{Organization: "acme", Tool: "t", Arguments: []byte(deep)}
	if call := (Call{Organization: "acme", Tool: "t", Arguments: deep}); !a.Covers(call) {
		t.Error("the very arguments are not covered")
	}
	if call := (Call{Organization: "acme", Tool: "t", Arguments: deep + " "}); a.Covers(call) {
		t.Error("other arguments are covered")
	}
}
