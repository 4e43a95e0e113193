package definition

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/apierr"
)

// Verdict is the result of a review.
type Verdict string

// The verdicts.
const (
	Approve Verdict = "approve"
	Reject  Verdict = "reject"
)

// Status returns the status of a definition after the verdict.
func (v Verdict) Status() Status {
	if v == Approve {
		return Approved
	}
	return Rejected
}

// Review is a reviewer's verdict.
type Review struct {
	Verdict    Verdict
	By, Reason string
	// User is the user for whom the caller acts, from its headers; empty for none.
	User string
}

// Errors of reviews.
var (
	ErrNoTool = apierr.NotFound("definition of the tool")
	// ErrOther: the definition, or the listing, is another one than the reviewer saw.
	ErrOther        = apierr.New(apierr.KindConflict, toolserver.ReasonVersionConflict, "digest: the tool has another definition now; read it again")
	ErrOtherListing = apierr.New(apierr.KindConflict, toolserver.ReasonVersionConflict, "listing_digest: the server lists other tools now; read them again")
	// ErrNotPending: there is nothing to review.
	ErrNotPending = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "no review of the present definition is pending")
	// ErrNotIndependent: who registered or moved a server can't review what it says.
	ErrNotIndependent = &apierr.Error{
		Kind: apierr.KindForbidden, Reason: principal.ReasonNotIndependent, Class: apierr.ClassPolicy,
		Text: "reviewed_by: must be another principal than registered the server or set its url",
	}
)

// Independent returns ErrNotIndependent if the reviewer, or the user in whose place the caller acts, registered or moved
// the server.
func (v *Review) Independent(s *toolserver.Server) error {
	for _, reviewer := range []string{v.By, v.User} {
		for _, registrar := range []string{s.CreatedBy, s.MovedBy} {
			if reviewer != "" && registrar != "" && principal.Same(reviewer, registrar) {
				return ErrNotIndependent
			}
		}
	}
	return nil
}

// Decide returns a tool's definition with a verdict on the definition that has a digest.
func (r Reviewed) Decide(v *Review, digest Digest, now time.Time) (Reviewed, error) {
	switch {
	case !r.Present:
		return r, ErrNoTool
	case r.Digest != digest:
		return r, ErrOther
	case r.Status != Pending:
		return r, ErrNotPending
	}
	r.Status, r.ReviewedBy, r.Reason, r.ReviewedAt = v.Verdict.Status(), v.By, v.Reason, now
	return r, nil
}

// Store stores definitions and their reviews. A review and its audit entry are one transaction, and reviews and listings
// of all servers are serialized.
type Store interface {
	// List returns the tools of a server with names behind after, sorted: the present definition of each, else the one that
	// was reviewed last; an empty status is any.
	List(ctx context.Context, key toolserver.Key, status Status, after string, limit int) ([]Reviewed, error)
	// Review stores what Decide returns for the definition that a tool has now. An approved definition replaces the one
	// that was approved before.
	Review(ctx context.Context, key toolserver.Key, tool string, digest Digest, v *Review, now time.Time, entry *audit.Entry) (Reviewed, error)
	// ReviewAll decides on all pending definitions of the latest listing, which must have a digest.
	ReviewAll(ctx context.Context, key toolserver.Key, listing Digest, v *Review, now time.Time, entry *audit.Entry) error
	// States returns the states of servers' listings; those that it doesn't have are missing.
	States(ctx context.Context, keys []toolserver.Key) (map[toolserver.Key]State, error)
}

// Reviewer reviews definitions. Safe for concurrent use.
type Reviewer struct{ Store Store }

// List returns a page of a server's tools.
func (r *Reviewer) List(ctx context.Context, key toolserver.Key, status Status, after string, limit int) ([]Reviewed, error) {
	found, err := r.Store.List(ctx, key, status, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list tool definitions: %w", err)
	}
	return found, nil
}

// States returns the states of servers' listings.
func (r *Reviewer) States(ctx context.Context, keys []toolserver.Key) (map[toolserver.Key]State, error) {
	states, err := r.Store.States(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read tool listings: %w", err)
	}
	return states, nil
}

// Review decides on the definition of a tool that has a digest, in hexadecimal.
func (r *Reviewer) Review(ctx context.Context, key toolserver.Key, tool, digest string, v *Review) (Reviewed, error) {
	of, err := parse("digest", digest)
	if err == nil {
		err = principal.Check("reviewed_by", v.By)
	}
	if err != nil {
		return Reviewed{}, err
	}
	entry := newEntry(ctx, "tool_definition."+string(v.Verdict), key, tool, v.Reason)
	reviewed, err := r.Store.Review(ctx, key, tool, of, v, now(), &entry)
	if err != nil {
		return Reviewed{}, fmt.Errorf("review tool definition: %w", err)
	}
	return reviewed, nil
}

// ReviewAll decides on all pending definitions of a server, whose latest listing has a digest, in hexadecimal.
func (r *Reviewer) ReviewAll(ctx context.Context, key toolserver.Key, listing string, v *Review) error {
	of, err := parse("listing_digest", listing)
	if err == nil {
		err = principal.Check("reviewed_by", v.By)
	}
	if err != nil {
		return err
	}
	entry := newEntry(ctx, "tool_definition."+string(v.Verdict), key, "", v.Reason)
	if err := r.Store.ReviewAll(ctx, key, of, v, now(), &entry); err != nil {
		return fmt.Errorf("review tool server: %w", err)
	}
	return nil
}

func parse(field, digest string) (d Digest, err error) {
	if n, err := hex.Decode(d[:], []byte(digest[:min(len(digest), 2*len(d))])); err != nil || n != len(d) || len(digest) != 2*len(d) {
		return d, apierr.Invalid(field, "must be 64 hexadecimal digits")
	}
	return d, nil
}

// newEntry returns the audit entry of a review, whose subject is "<server>/<tool>", or the server for all of its tools.
func newEntry(ctx context.Context, action string, key toolserver.Key, tool, reason string) audit.Entry {
	subject := key.ID
	if tool != "" {
		subject += "/" + tool
	}
	return audit.New(ctx, action, audit.Subject{Type: "tool_definition", ID: subject, Organization: key.Organization}, reason)
}

// now returns the current time in the precision that the store keeps.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
