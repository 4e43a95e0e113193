package approver

import (
	"context"
	"errors"
	"sync"

	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/apierr"
)

// Ways by which identified people decide, as the gateway records them.
const (
	ViaPortal    = "portal"
	ViaConsole   = "console"
	ViaUserToken = "user_token"
)

// Person is a user of an organization whom the edge has identified. Way is how: by a session or by a token.
type Person struct{ Organization, User, Way string }

// Persons lets identified people decide on the approvals of their groups, without a link that authorizes them. It is
// safe for concurrent use.
type Persons struct {
	members *Members
	gateway Gateway
	decider Decider

	mu     sync.Mutex
	tokens map[seat]string
}

// seat is a person, and the approval that the person decides on.
type seat struct {
	Person

	ref string
}

// maxSeats bounds the tokens in memory. The gateway gives a person only a few tokens for an approval, so a page that is
// loaded again must get the same token.
const maxSeats = 4096

// NewPersons returns Persons that checks members, and mints tokens at the gateway for the decider.
func NewPersons(members *Members, gateway Gateway, decider Decider) *Persons {
	return &Persons{members: members, gateway: gateway, decider: decider, tokens: make(map[seat]string)}
}

// Errors for people who can't decide on an approval.
var (
	errNoApproval = apierr.NotFound("approval")
	errOver       = apierr.New(apierr.KindConflict, decision.ReasonDecided, "the approval is decided already, or it has expired")
	errOwnCall    = apierr.New(apierr.KindForbidden, decision.ReasonNotIndependent, "you can't decide on this call: it may be your own")
)

// Show returns what a person decides on. If the person can't decide, the error is an *apierr.Error or a
// *decision.RefusalError.
func (p *Persons) Show(ctx context.Context, who Person, ref string) (*decision.Decision, error) {
	token, err := p.token(ctx, seat{who, ref})
	if err != nil {
		return nil, err
	}
	return p.decider.Show(ctx, token)
}

// Decide decides in the name of a person. It returns the same errors as Show.
func (p *Persons) Decide(ctx context.Context, who Person, ref string, choice decision.Choice) (*decision.Decision, error) {
	token, err := p.token(ctx, seat{who, ref})
	if err != nil {
		return nil, err
	}
	return p.decider.Decide(ctx, token, choice)
}

// token returns a token of the gateway for a person who is currently a member of the approval's group.
func (p *Persons) token(ctx context.Context, at seat) (string, error) {
	found, err := p.members.present(ctx, at.Organization, at.ref)
	switch {
	case errors.Is(err, ErrGone):
		return "", errNoApproval
	case err != nil:
		return "", apierr.Unavailable("the service that decides is away; try again", err)
	}
	if err := p.members.Check(ctx, at.Organization, found.Group, at.User); err != nil {
		return "", err
	}
	if token, ok := p.known(at); ok {
		return token, nil
	}
	token, err := p.gateway.Mint(ctx, at.Organization, at.ref, at.User, at.Way)
	switch {
	case errors.Is(err, ErrGone):
		return "", errOver
	case errors.Is(err, ErrRefused):
		return "", errOwnCall
	case err != nil:
		return "", apierr.Unavailable("the service that decides is away; try again", err)
	}
	p.keep(at, token)
	return token, nil
}

func (p *Persons) known(at seat) (token string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	token, ok = p.tokens[at]
	return token, ok
}

// keep stores a token. To make room it drops others in map order, which is arbitrary.
func (p *Persons) keep(at seat, token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for victim := range p.tokens {
		if len(p.tokens) < maxSeats {
			break
		}
		delete(p.tokens, victim)
	}
	p.tokens[at] = token
}
