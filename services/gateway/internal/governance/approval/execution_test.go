package approval

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func exact() *Exact {
	return &Exact{
		Organization: "acme", Run: "r1", Server: "ci", Tool: "deploy", Definition: [32]byte{1}, RequestedBy: "agent", User: "eve",
		Arguments: []byte(`{"a":1}`), Policy: "p1",
	}
}

// Each part of a call that its approval is bound to makes another digest.
func TestDigestOfACall(t *testing.T) {
	seen := map[[32]byte]string{exact().Digest(): "the call"}
	for name, change := range map[string]func(*Exact){
		"server": func(c *Exact) { c.Server = "cd" }, "tool": func(c *Exact) { c.Tool = "drop" },
		"who asks": func(c *Exact) { c.RequestedBy = "bob" }, "user": func(c *Exact) { c.User = "" },
		"arguments": func(c *Exact) { c.Arguments = []byte(`{"a":2}`) },
		"division":  func(c *Exact) { c.Server, c.Tool = "cide", "ploy" },
	} {
		c := exact()
		change(c)
		if other, found := seen[c.Digest()]; found {
			t.Errorf("%s: has the digest of %s", name, other)
		}
		seen[c.Digest()] = name
	}
}

// machine is an approval with its call, as a store keeps it: what Next allows is done, and what became of the call is
// counted.
type machine struct {
	now              time.Time
	call             *Exact
	a                *Approval // the latest; nil before the first
	approved, denied bool      // what a person has decided of the latest
	claims, sends    int       // of the latest approval; a call that certainly did not leave is no send
}

func (m *machine) ask() {
	a := New(Approval{Call: &Execution{State: Waiting, Policy: m.call.Policy, Definition: m.call.Definition}}, time.Minute, m.now)
	m.a, m.approved, m.denied, m.claims, m.sends = &a, false, false, 0, 0
}

// require does what a store does for a request of the call.
func (m *machine) require(t *rapid.T) {
	if m.a == nil {
		m.ask()
		return
	}
	x := m.a.Call
	step, err := m.a.Next(m.call, m.now)
	switch {
	case err != nil && step != "":
		t.Fatalf("both %s and %v", step, err)
	case errors.Is(err, ErrDenied) && !m.denied:
		t.Fatal("denied without a decision")
	case errors.Is(err, ErrUnknown) && x.State != Unknown:
		t.Fatalf("unknown in %s", x.State)
	}
	switch step {
	case Ask:
		if x.State == Sent {
			t.Fatal("another approval while the outcome of this one is open")
		}
		m.ask()
	case Claim:
		switch {
		case !m.approved || m.sends > 0:
			t.Fatalf("claimed: approved %t, sent %d times, %s", m.approved, m.sends, x.State)
		case x.Policy != m.call.Policy || x.Definition != m.call.Definition:
			t.Fatal("claimed under another policy or definition than was approved")
		case !m.now.Before(m.a.DecidedAt.Add(Stands)):
			t.Fatal("claimed by a decision that stands no more")
		}
		x.State, x.LeaseUntil = Claimed, m.now.Add(claimTime)
		m.claims++
	case Lose:
		if x.State != Sent || m.now.Before(x.LeaseUntil) {
			t.Fatalf("lost in %s", x.State)
		}
		x.State, x.EndedAt = Unknown, m.now
	case Wait, "":
	}
}

// Whatever happens in which order, a call is claimed only while its decision and its terms hold, and what was sent is not
// sent again without the certainty that it did not leave, or another decision.
func TestACallIsMadeOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machine{now: noon, call: exact()}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"require", "require", "approve", "deny", "send", "answer", "give back", "time", "hour", "policy", "definition"}).Draw(t, "step") {
			case "require":
				m.require(t)
			case "approve", "deny":
				event := rapid.SampledFrom([]Event{Approve, Deny}).Draw(t, "event")
				if m.a == nil {
					continue
				}
				if decided, err := m.a.Decide(Decision{Event: event, By: "ada"}, m.now); err == nil {
					m.a, m.approved, m.denied = &decided, event == Approve, event == Deny
				}
			case "send":
				if m.a != nil && m.a.Call.State == Claimed && m.now.Before(m.a.Call.LeaseUntil) {
					m.a.Call.State, m.a.Call.LeaseUntil = Sent, m.now.Add(time.Minute)
					m.sends++
				}
			case "answer":
				if m.a != nil && m.a.Call.State == Sent {
					m.a.Call.State, m.a.Call.EndedAt = rapid.SampledFrom([]State{Done, Failed, Unknown}).Draw(t, "end"), m.now
				}
			case "give back":
				if m.a != nil && m.a.Call.State == Sent {
					m.a.Call.State = Waiting
					m.sends--
				}
			case "time":
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			case "hour":
				m.now = m.now.Add(Stands)
			case "policy":
				m.call.Policy = rapid.SampledFrom([]string{"p1", "p2"}).Draw(t, "policy")
			case "definition":
				m.call.Definition = [32]byte{rapid.Byte().Draw(t, "definition") % 2}
			}
			if m.sends > 1 {
				t.Fatalf("an approval let its call leave %d times", m.sends)
			}
		}
	})
}
