package approval

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"switchyard.dev/services/platform/screen"
)

// A token is 256 random bits, is taken for no vendor's key where messages are screened, and is hidden in paths of the log.
func TestNewToken(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		token := NewToken()
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(token) || seen[token] || screen.HasKeyForm(token) {
			t.Fatal(token)
		}
		if path := screen.Path("/v1/decisions/"+token, "/"); path != "/v1/decisions/*" {
			t.Fatal(path)
		}
		seen[token] = true
	}
}

// What is shown has another version as soon as any part of it is another one, and the same after the decision.
func TestDisplay(t *testing.T) {
	base := func() Approval {
		return Approval{Ref: "apr_1", Tool: "deploy", Server: "ci", RequestedBy: "agent", Arguments: []byte(`{}`), Call: &Execution{Rule: "r"}}
	}
	a := base()
	seen := map[string]string{a.Display(): "nothing"}
	for name, change := range map[string]func(*Approval){
		"arguments": func(a *Approval) { a.Arguments = []byte(`{"a":1}`) }, "asker": func(a *Approval) { a.RequestedBy = "bob" },
		"definition": func(a *Approval) { a.Call.Definition[0] = 1 }, "price": func(a *Approval) { a.Call.Price = 1 },
		"reviewer": func(a *Approval) { a.Call.ReviewedBy = "rita" }, "no call": func(a *Approval) { a.Call = nil },
		"ref": func(a *Approval) { a.Ref = "apr_2" }, "redacted": func(a *Approval) { a.Call.Redacted = []string{"email"} },
	} {
		b := base()
		change(&b)
		if other, found := seen[b.Display()]; found {
			t.Errorf("%s looks like %s", name, other)
		}
		seen[b.Display()] = name
	}
	decided := base()
	decided.Status, decided.DecidedBy, decided.Call.State = Approved, "ada", Sent
	if decided.Display() != a.Display() {
		t.Error("the decision changes what it was shown for")
	}
}

func TestDecideBy(t *testing.T) {
	a := New(Approval{RequestedBy: "agent", AskedUser: "eve", InitiatedBy: []string{"ivy"}, Call: &Execution{Page: true}}, time.Minute, noon)
	approve, deny := TokenDecision{Event: Approve, Display: a.Display(), Page: true}, TokenDecision{Event: Deny}
	token := Token{Approver: "ada", Channel: "email"}
	for name, test := range map[string]struct {
		token Token
		d     TokenDecision
		after time.Duration
		want  error
	}{
		"approved on a page": {token, approve, 0, nil},
		"denied":             {token, deny, 0, nil},
		"from a message":     {token, TokenDecision{Event: Approve, Display: a.Display()}, 0, ErrProofRequired},
		"another display":    {token, TokenDecision{Event: Deny, Display: "x"}, 0, ErrDisplayChanged},
		"without a display":  {token, TokenDecision{Event: Approve, Page: true}, 0, ErrDisplayRequired},
		"too late":           {token, approve, time.Minute, ErrTokenExpired},
		"who asked":          {Token{Approver: "Agent"}, deny, 0, ErrNotIndependent},
		"its user":           {Token{Approver: "EVE"}, deny, 0, ErrNotIndependent},
		"of the run":         {Token{Approver: "ivy"}, approve, 0, ErrNotIndependent},
	} {
		got, repeated, err := a.DecideBy(&test.token, test.d, noon.Add(test.after))
		if !errors.Is(err, test.want) || repeated || (err == nil) != (got.Status != Pending && got.Status != Expired) || err == nil && got.Via != "email" {
			t.Errorf("%s: %s, %t, %v", name, got.Status, repeated, err)
		}
	}
	decided, _, err := a.DecideBy(&token, approve, noon)
	if err != nil {
		t.Fatal(err)
	}
	used := token
	used.Decision = Approve
	if _, repeated, err := decided.DecideBy(&used, TokenDecision{Event: Approve}, noon.Add(time.Hour)); !repeated || err != nil {
		t.Errorf("again: %t, %v", repeated, err)
	}
	for name, test := range map[string]struct {
		token *Token
		d     TokenDecision
	}{"otherwise": {&used, deny}, "by another token": {&token, approve}} {
		if _, _, err := decided.DecideBy(test.token, test.d, noon); err == nil || err.Error() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMint(t *testing.T) {
	a := New(Approval{RequestedBy: "agent"}, time.Minute, noon)
	token, err := a.Mint("secret", "ada", "email", noon)
	if err != nil || token.Hash != HashToken("secret") || !token.ExpiresAt.Equal(a.ExpiresAt) {
		t.Errorf("%+v, %v", token, err)
	}
	if _, err := a.Mint("secret", " agent", "email", noon); !errors.Is(err, ErrNotIndependent) {
		t.Errorf("for who asks: %v", err)
	}
	if _, err := a.Mint("secret", "ada", "email", noon.Add(time.Minute)); !errors.Is(err, ErrExpired) {
		t.Errorf("too late: %v", err)
	}
	a.Status = Denied
	if _, err := a.Mint("secret", "ada", "email", noon); !errors.Is(err, ErrDecided) {
		t.Errorf("decided: %v", err)
	}
}
