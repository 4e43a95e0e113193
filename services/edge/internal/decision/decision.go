// Package decision is what a person sees and does who decides on a call of a tool by a token of the gateway: the page, the
// nonce of its form, and the gateway's answers.
package decision

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// Decisions.
const (
	Approve = "approve"
	Deny    = "deny"
)

// ProofPage says that a person has seen the page.
const ProofPage = "page"

// Bounds of what a person sends, in bytes: the gateway's of a reason in characters is the same.
const (
	MaxReason  = 1024
	MaxVersion = 128
)

// token is the form of the gateway's tokens.
var token = regexp.MustCompile(`^[0-9a-f]{64}$`)

// IsToken reports whether text has the form of a token.
func IsToken(text string) bool { return token.MatchString(text) }

// Decision is what a token decides, as the gateway shows it.
type Decision struct {
	Ref          string          `json:"ref"`
	Organization string          `json:"organization_id"`
	Status       string          `json:"status"`
	Approver     string          `json:"approver"`
	Channel      string          `json:"channel"`
	Server       *string         `json:"server_id"`
	Tool         string          `json:"tool"`
	Arguments    json.RawMessage `json:"arguments"`
	RequestedBy  string          `json:"requested_by"`
	Run          *string         `json:"run_id"`
	Description  string          `json:"description"`
	Call         *Call           `json:"call"`
	Version      string          `json:"display_version"`
	CreatedAt    time.Time       `json:"created_at"`
	ExpiresAt    time.Time       `json:"expires_at"`
	DecidedBy    *string         `json:"decided_by"`
	DecidedVia   *string         `json:"decided_via"`
	DecidedAt    *time.Time      `json:"decided_at"`
	Reason       *string         `json:"reason"`
}

// Call is the exact call that is decided.
type Call struct {
	Definition string   `json:"definition_digest"`
	Digest     string   `json:"call_digest"`
	Policy     string   `json:"policy_version"`
	Rule       string   `json:"rule"`
	Approvers  string   `json:"approvers"`
	Proof      string   `json:"proof"`
	Cents      float64  `json:"price_cents"`
	ReviewedBy *string  `json:"definition_reviewed_by"`
	Redacted   []string `json:"redacted"`
	UnknownRef *string  `json:"unknown_ref"`
}

// Group returns the name of the group that decides; empty for the default group.
func (d *Decision) Group() string {
	if d.Call == nil {
		return ""
	}
	return d.Call.Approvers
}

// OwnPath begins the path of the page on which a person decides whom a session or a token identifies, without a link
// that authorizes. The approval's reference follows.
const OwnPath = "/decisions/of/"

// Pending reports whether it is not decided.
func (d *Decision) Pending() bool { return d.Status == "pending" }

// Choice is a decision that a person makes.
type Choice struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason,omitempty"`
	Version  string `json:"display_version,omitempty"`
	// Proof is ProofPage only for what a person sends from the page.
	Proof string `json:"proof,omitempty"`
}

// Reasons of the gateway's refusals.
const (
	ReasonDecided        = "approval_decided"
	ReasonExpired        = "approval_expired"
	ReasonChanged        = "display_changed"
	ReasonProof          = "proof_required"
	ReasonNotIndependent = "reviewer_not_independent"
)

// RefusalError is an answer of the gateway that is no success. Its text is for people and repeats no token.
type RefusalError struct {
	Status       int
	Reason, Text string
	RetryAfter   time.Duration
}

// Error implements error.
func (r *RefusalError) Error() string {
	return fmt.Sprintf("the gateway answered %d %s: %s", r.Status, r.Reason, r.Text)
}
