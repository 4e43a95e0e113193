package approver

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/decision"
)

// Decider decides by tokens of the gateway. The error of a refusal is a *decision.RefusalError.
type Decider interface {
	Show(ctx context.Context, token string) (*decision.Decision, error)
	Decide(ctx context.Context, token string, choice decision.Choice) (*decision.Decision, error)
}

// NoticeStore finds notices.
type NoticeStore interface {
	// Notice returns nil without an error if there is none of the id.
	Notice(ctx context.Context, id string) (*Notice, error)
}

// Clicks decides by buttons of messages in Slack.
type Clicks struct {
	groups  *Groups
	notices NoticeStore
	gateway Gateway
	decider Decider
}

// NewClicks returns Clicks over these stores and the gateway.
func NewClicks(groups *Groups, notices NoticeStore, gateway Gateway, decider Decider) *Clicks {
	return &Clicks{groups, notices, gateway, decider}
}

// Click is a button that a user of Slack pressed.
type Click struct {
	User SlackUser
	// Team is the workspace of the message.
	Team string
	// Button is Approve or Deny.
	Button string
	// Notice is the id that the button has as its value.
	Notice string
}

// What a person reads whose click decides nothing.
const (
	TextUnknown   = "This message is not known any more."
	TextStranger  = "You are not one of the people who decide on this call."
	TextPage      = "This call is approved on its page only: use the link that was sent to you, or the console."
	TextOwn       = "You can't decide on this call: it may be your own."
	TextOver      = "This call is decided already, or it has expired."
	TextChanged   = "The call has changed since. Look at it on its page."
	TextElsewhere = "This button does not decide."
)

// Do decides by a click. It returns what to tell the person if the click decided nothing, and an error if that isn't known. A
// click that is repeated decides nothing more, and is no failure.
func (c *Clicks) Do(ctx context.Context, click Click) (text string, err error) {
	if click.Button != Approve && click.Button != Deny {
		return TextElsewhere, nil
	}
	n, err := c.notices.Notice(ctx, click.Notice)
	if err != nil {
		return "", err
	}
	if n == nil || n.Channel != alert.Slack {
		return TextUnknown, nil
	}
	groups, err := c.groups.Get(ctx, n.Approval.Organization)
	if err != nil {
		return "", err
	}
	member := authorized(Find(groups, n.Approval.Group), n, click)
	switch {
	case member == nil:
		return TextStranger, nil
	case click.Button == Approve && n.Approval.Proof != ProofLink:
		return TextPage, nil
	}
	return c.decide(ctx, n, member, click.Button)
}

// authorized returns the member that a click is of; nil if it is of none who may decide. The message must be in a workspace
// of the group.
func authorized(g *Group, n *Notice, click Click) *Member {
	if g == nil || !slices.ContainsFunc(g.Members, func(m Member) bool { return m.Slack != nil && m.Slack.Team == click.Team }) {
		return nil
	}
	member := g.BySlack(click.User)
	if member == nil || n.User != "" && n.User != member.User {
		return nil
	}
	return member
}

// decide decides by a token that is minted for the member.
func (c *Clicks) decide(ctx context.Context, n *Notice, member *Member, button string) (text string, err error) {
	token, err := c.gateway.Mint(ctx, n.Approval.Organization, n.Approval.Ref, member.User, alert.Slack)
	switch {
	case errors.Is(err, ErrGone):
		return c.after(ctx, n, member, button)
	case errors.Is(err, ErrRefused):
		return TextOwn, nil
	case err != nil:
		return "", err
	}
	shown, err := c.decider.Show(ctx, token)
	if err == nil && shown.Pending() {
		_, err = c.decider.Decide(ctx, token, decision.Choice{Decision: button, Version: shown.Version})
	}
	refusal, refused := errors.AsType[*decision.RefusalError](err)
	if !refused {
		return "", err
	}
	switch {
	case refusal.Reason == decision.ReasonChanged:
		return TextChanged, nil
	case refusal.Reason == decision.ReasonProof:
		return TextPage, nil
	case refusal.Reason == decision.ReasonNotIndependent:
		return TextOwn, nil
	case refusal.Status == http.StatusConflict, refusal.Status == http.StatusGone, refusal.Status == http.StatusNotFound:
		return TextOver, nil
	}
	return "", refusal
}

// decisions are what a button makes of an approval.
var decisions = map[string]string{Approve: Approved, Deny: Denied}

// after returns what to tell a member who clicks once the approval doesn't wait any more: nothing if it was the member's own
// click.
func (c *Clicks) after(ctx context.Context, n *Notice, member *Member, button string) (string, error) {
	found, err := c.gateway.Approval(ctx, n.Approval.Organization, n.Approval.Ref)
	if errors.Is(err, ErrGone) {
		return TextOver, nil
	}
	if err != nil || found.State == decisions[button] && found.DecidedBy == member.User {
		return "", err
	}
	return TextOver, nil
}
