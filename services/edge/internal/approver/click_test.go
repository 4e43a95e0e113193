package approver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/decision"
)

// clicks is a gateway with one approval, and the notices that there are.
type clicks struct {
	memory

	notices  map[string]*approver.Notice
	mintErr  error
	noticing error
	status   string // of the approval
	by       string
	decide   error
	made     []string // decisions "member decision version proof"
	minting  string
}

func (c *clicks) Get(context.Context, string) ([]byte, error) {
	return []byte(`[{"name":"default","members":[{"user_id":"ann","slack_user":{"team_id":"T01","user_id":"U01"}},
		{"user_id":"bob","slack_user":{"team_id":"T02","user_id":"U02"}},{"user_id":"eve"}]}]`), nil
}

func (c *clicks) Put(context.Context, string, []byte, []string, alert.Author) error { return nil }

func (c *clicks) Notice(_ context.Context, id string) (*approver.Notice, error) {
	return c.notices[id], c.noticing
}

func (c *clicks) Mint(_ context.Context, _, _, member, _ string) (string, error) {
	if c.mintErr == nil && c.status != "pending" {
		return "", approver.ErrGone
	}
	c.minting = member
	return "token", c.mintErr
}

func (c *clicks) Approval(context.Context, string, string) (approver.Present, error) {
	return approver.Present{State: c.status, DecidedBy: c.by}, nil
}

func (c *clicks) Show(context.Context, string) (*decision.Decision, error) {
	return &decision.Decision{Status: c.status, Version: "v1"}, nil
}

func (c *clicks) Decide(_ context.Context, _ string, choice decision.Choice) (*decision.Decision, error) {
	if c.decide != nil {
		return nil, c.decide
	}
	c.made = append(c.made, c.minting+" "+choice.Decision+" "+choice.Version+" "+choice.Proof)
	c.status, c.by = map[string]string{"approve": "approved", "deny": "denied"}[choice.Decision], c.minting
	return &decision.Decision{Status: c.status}, nil
}

func newClicks() *clicks {
	a := approver.Approval{Organization: "acme", Ref: "r1", Group: "default", Proof: "link", State: approver.Waiting, At: time.Now()}
	page, gone := a, a
	page.Proof, gone.Group = "page", "removed"
	return &clicks{status: "pending", notices: map[string]*approver.Notice{
		"ntc_all":   {ID: "ntc_all", Channel: "slack", SlackChannel: "C01", Approval: a},
		"ntc_ann":   {ID: "ntc_ann", Channel: "slack", User: "ann", Approval: a},
		"ntc_page":  {ID: "ntc_page", Channel: "slack", SlackChannel: "C01", Approval: page},
		"ntc_gone":  {ID: "ntc_gone", Channel: "slack", SlackChannel: "C01", Approval: gone},
		"ntc_email": {ID: "ntc_email", Channel: "email", User: "ann", Approval: a},
	}}
}

func (c *clicks) do(t *testing.T, click approver.Click) (string, error) {
	t.Helper()
	return approver.NewClicks(approver.NewGroups(c), c, c, c).Do(t.Context(), click)
}

func TestClicks(t *testing.T) {
	ann, bob := approver.SlackUser{Team: "T01", User: "U01"}, approver.SlackUser{Team: "T02", User: "U02"}
	refused := func(status int, reason string) error { return &decision.RefusalError{Status: status, Reason: reason} }
	for name, tt := range map[string]struct {
		click  approver.Click
		change func(*clicks)
		text   string
		made   string
		err    bool
	}{
		"approved in a conversation":   {click: approver.Click{ann, "T01", "approve", "ntc_all"}, made: "ann approve v1 "},
		"denied in one":                {click: approver.Click{ann, "T01", "deny", "ntc_all"}, made: "ann deny v1 "},
		"approved by oneself":          {click: approver.Click{ann, "T01", "approve", "ntc_ann"}, made: "ann approve v1 "},
		"another workspace's member":   {click: approver.Click{bob, "T01", "deny", "ntc_all"}, made: "bob deny v1 "},
		"denied where a page is due":   {click: approver.Click{ann, "T01", "deny", "ntc_page"}, made: "ann deny v1 "},
		"approved where a page is due": {click: approver.Click{ann, "T01", "approve", "ntc_page"}, text: approver.TextPage},
		"another's message":            {click: approver.Click{bob, "T01", "approve", "ntc_ann"}, text: approver.TextStranger},
		"a stranger":                   {click: approver.Click{approver.SlackUser{Team: "T01", User: "U09"}, "T01", "approve", "ntc_all"}, text: approver.TextStranger},
		"a user of another workspace":  {click: approver.Click{approver.SlackUser{Team: "T02", User: "U01"}, "T01", "approve", "ntc_all"}, text: approver.TextStranger},
		"another workspace":            {click: approver.Click{ann, "T09", "approve", "ntc_all"}, text: approver.TextStranger},
		"no user":                      {click: approver.Click{approver.SlackUser{}, "T01", "approve", "ntc_all"}, text: approver.TextStranger},
		"a group that is removed":      {click: approver.Click{ann, "T01", "approve", "ntc_gone"}, text: approver.TextStranger},
		"an unknown message":           {click: approver.Click{ann, "T01", "approve", "ntc_none"}, text: approver.TextUnknown},
		"a message of another channel": {click: approver.Click{ann, "T01", "approve", "ntc_email"}, text: approver.TextUnknown},
		"another button":               {click: approver.Click{ann, "T01", "delete", "ntc_all"}, text: approver.TextElsewhere},
		"the own call":                 {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.mintErr = approver.ErrRefused }, text: approver.TextOwn},
		"an expired one":               {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.status = "expired" }, text: approver.TextOver},
		"decided by another":           {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.status, c.by = "approved", "bob" }, text: approver.TextOver},
		"decided otherwise by oneself": {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.status, c.by = "denied", "ann" }, text: approver.TextOver},
		"a repeat":                     {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.status, c.by = "approved", "ann" }},
		"decided meanwhile":            {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.decide = refused(409, "approval_decided") }, text: approver.TextOver},
		"expired meanwhile":            {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.decide = refused(410, "approval_expired") }, text: approver.TextOver},
		"changed meanwhile":            {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.decide = refused(409, "display_changed") }, text: approver.TextChanged},
		"a page is due by the gateway": {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.decide = refused(403, "proof_required") }, text: approver.TextPage},
		"the gateway is busy":          {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.decide = refused(429, "rate_limited") }, err: true},
		"the gateway is away":          {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.decide = errAway }, err: true},
		"no token":                     {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.mintErr = errAway }, err: true},
		"Postgres is away":             {click: approver.Click{ann, "T01", "approve", "ntc_all"}, change: func(c *clicks) { c.noticing = errors.New("away") }, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClicks()
			if tt.change != nil {
				tt.change(c)
			}
			text, err := c.do(t, tt.click)
			made := ""
			if len(c.made) > 0 {
				made = c.made[0]
			}
			if text != tt.text || made != tt.made || (err != nil) != tt.err || len(c.made) > 1 {
				t.Errorf("%q, decisions %q, %v; want %q, %q, an error %t", text, c.made, err, tt.text, tt.made, tt.err)
			}
		})
	}
}

// A click that arrives twice decides once, and tells the person nothing.
func TestClicksRepeated(t *testing.T) {
	c := newClicks()
	for range 3 {
		text, err := c.do(t, approver.Click{User: approver.SlackUser{Team: "T01", User: "U01"}, Team: "T01", Button: "deny", Notice: "ntc_all"})
		if text != "" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	}
	if len(c.made) != 1 {
		t.Errorf("decisions %q", c.made)
	}
}
