package approval

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/content/canonical"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/platform/apierr"
)

// MaxTokens is the largest number of tokens that an approver gets for an approval.
const MaxTokens = 20

// Token is a right of one approver to decide one approval. The token itself is only ever known to the approver.
type Token struct {
	Hash [sha256.Size]byte
	// Approver decides by it, and gets it over Channel.
	Approver, Channel    string
	CreatedAt, ExpiresAt time.Time
	// Decision is what was decided by it; empty before, and where another decision came first.
	Decision Event
}

// NewToken returns 256 random bits as text. Hexadecimal digits resemble no vendor's key, by which a message that carries
// the token would be refused.
func NewToken() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // It never fails.
	return hex.EncodeToString(random[:])
}

// HashToken returns what is stored of a token.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// HashName returns a short name of a stored token for the audit.
func HashName(hash [sha256.Size]byte) string { return hex.EncodeToString(hash[:6]) }

// Reasons of refused decisions by tokens.
const (
	ReasonDisplayChanged  apierr.Reason = "display_changed"
	ReasonProofRequired   apierr.Reason = "proof_required"
	ReasonTokensExhausted apierr.Reason = "tokens_exhausted"
)

// Errors of tokens.
var (
	ErrTokenNotFound   = apierr.NotFound("decision")
	ErrTokenExpired    = apierr.New(apierr.KindGone, ReasonExpired, "the approval expired before it was decided")
	ErrDisplayChanged  = apierr.New(apierr.KindConflict, ReasonDisplayChanged, "display_version: what it was shown for has changed; read it again")
	ErrDisplayRequired = apierr.Invalid("display_version", "is required to approve")
	ErrTokensExhausted = apierr.New(apierr.KindConflict, ReasonTokensExhausted, fmt.Sprintf("the approver has %d tokens for the approval already", MaxTokens))
	ErrProofRequired   = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: ReasonProofRequired, Class: apierr.ClassPolicy,
		Text: "proof: the rule demands that the approval is given on a page",
	}
)

// Mint returns the token of an approver, whose text is secret, or why there is none.
func (a Approval) Mint(secret, approver, channel string, now time.Time) (Token, error) {
	a = a.At(now)
	switch {
	case a.Status.ended():
		return Token{}, ErrExpired
	case a.Status != Pending:
		return Token{}, ErrDecided
	case a.AskedBy(approver):
		return Token{}, ErrNotIndependent
	}
	return Token{Hash: HashToken(secret), Approver: approver, Channel: channel, CreatedAt: now, ExpiresAt: a.ExpiresAt}, nil
}

// TokenDecision is a decision by a token.
type TokenDecision struct {
	// Event is Approve or Deny.
	Event  Event
	Reason string
	// Display is the Display that the approver saw; empty for none.
	Display string
	// Page reports that it was decided on a page.
	Page bool
}

// DecideBy returns the approval with a decision by a token, made at a moment. repeated reports that the token has made this
// decision before.
func (a Approval) DecideBy(t *Token, d TokenDecision, now time.Time) (decided Approval, repeated bool, err error) {
	a = a.At(now)
	switch {
	case a.Status.ended():
		return a, false, ErrTokenExpired
	case a.Status != Pending && t.Decision == d.Event:
		return a, true, nil
	case a.Status != Pending:
		taken := *ErrDecided
		taken.Text = fmt.Sprintf("the approval has been %s at %s; a decision is final", a.Status, a.DecidedAt.UTC().Format(time.RFC3339))
		return a, false, &taken
	case d.Display == "" && d.Event == Approve:
		return a, false, ErrDisplayRequired
	case d.Display != "" && d.Display != a.Display():
		return a, false, ErrDisplayChanged
	case d.Event == Approve && a.Call != nil && a.Call.Page && !d.Page:
		return a, false, ErrProofRequired
	}
	decided, err = a.Decide(Decision{Event: d.Event, By: t.Approver, Reason: d.Reason, Via: t.Channel}, now)
	return decided, false, err
}

// Display identifies what approvers are shown of an approval.
func (a *Approval) Display() string {
	shown := []any{a.Ref, a.Organization, a.Tool, a.Server, a.RequestedBy, a.Run, a.Description}
	if x := a.Call; x != nil {
		shown = append(shown, x.Digest, x.Definition, x.Policy, x.Rule, x.Approvers, x.Page, x.Price, x.ReviewedBy, x.Redacted)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return "" // Texts and numbers always marshal.
	}
	sum := canonical.Digest("approval-display", text, a.Arguments)
	return hex.EncodeToString(sum[:16])
}

// TokenStore stores decision tokens.
type TokenStore interface {
	// Mint stores a token of an approver with its audit entry, and returns it.
	Mint(ctx context.Context, organization, ref, secret, approver, channel string, now time.Time, entry *audit.Entry) (Token, error)
	// ByToken returns a token with its approval. The error is ErrTokenNotFound.
	ByToken(ctx context.Context, hash [sha256.Size]byte) (Approval, Token, error)
	// DecideByToken makes a decision with its audit entry. Of concurrent decisions the first wins.
	DecideByToken(
		ctx context.Context, hash [sha256.Size]byte, d TokenDecision, now time.Time, entry *audit.Entry,
	) (Approval, Token, error)
}
