// Package console lets operators use what the edge, and the services behind it, have for all organizations, in a browser:
// an operator signs in once with a service token, and the session acts under the operator's name until it is left alone, its
// time is up, or the token is removed. The pages are embedded files. Package control serves them and the operations that
// they call.
package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

const (
	// idleTime is how long a session lasts without a request, sessionTime how long at most.
	idleTime    = time.Hour
	sessionTime = 8 * time.Hour
	// extendAfter is how much of the idle time must have passed before a request extends the session: most only read.
	extendAfter = time.Minute
	// keptTime is how long a session is kept after it was made.
	keptTime = 24 * time.Hour
	// dropped bounds how many old ones are deleted when one is made.
	dropped = 100
)

// Digest is the SHA-256 of the secret of a session. The secret has 256 random bits, so that it needs no salt.
type Digest [sha256.Size]byte

// Session is an operator's session.
type Session struct {
	ID       string
	Operator string             // the name of the operator's service token
	Token    caller.TokenDigest // the token that opened it
	IdleAt   time.Time          // when it ends unless it is used
	EndsAt   time.Time          // when it ends in any case
}

// Entry is an audit entry.
type Entry struct {
	At                time.Time
	Operator, Request string
	Action            string
	Organization      string // empty for none
	Details           map[string]any
}

// The actions in the audit.
const (
	ActionSignIn = "console.sign_in"
	ActionCall   = "console.call"
)

// Organization is one that has a key.
type Organization struct {
	ID   string
	Plan string // empty for none
}

// Store persists sessions and audit entries, and lists organizations.
type Store interface {
	// Insert stores a session with the audit entry of its sign-in.
	Insert(ctx context.Context, s Session, digest Digest, createdAt time.Time, entry Entry) error
	// Session returns a session that has not ended at now; nil without an error if there is none.
	Session(ctx context.Context, digest Digest, now time.Time) (*Session, error)
	// Extend moves the end of a session that has not ended at now to idleAt, or to its last moment.
	Extend(ctx context.Context, digest Digest, idleAt, now time.Time) error
	End(ctx context.Context, digest Digest, now time.Time) error
	// Drop deletes up to limit sessions that were made before.
	Drop(ctx context.Context, before time.Time, limit int) error
	Audit(ctx context.Context, entry Entry) error
	// Organizations returns the organizations after one whose names begin with prefix, in the order of their names.
	Organizations(ctx context.Context, prefix, after string, limit int) ([]Organization, error)
}

// Tokens are the service tokens that are accepted now.
type Tokens interface {
	Holder(digest caller.TokenDigest) (caller.Caller, bool)
}

// Sessions signs operators in.
type Sessions struct {
	store  Store
	tokens Tokens
}

// NewSessions returns Sessions over a store.
func NewSessions(store Store, tokens Tokens) *Sessions { return &Sessions{store, tokens} }

// present returns the current time with the precision of Postgres.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func digestOf(text string) Digest { return sha256.Sum256([]byte(text)) }

var (
	errToken = apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "token: is not a valid service token")
	errRole  = apierr.New(apierr.KindForbidden, apierr.ReasonForbidden, "token: needs the role "+string(caller.RoleOperator))
	// ErrSession refuses a request without a session.
	ErrSession = apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "there is no session, or it has ended; sign in again")
)

// SignIn opens a session with an operator's service token. It returns the session's secret and when it ends at the latest.
func (s *Sessions) SignIn(ctx context.Context, token, request string) (text secret.Value, until time.Time, err error) {
	digest := caller.DigestOf(token)
	holder, ok := s.tokens.Holder(digest)
	switch {
	case !ok:
		return secret.Value{}, time.Time{}, errToken
	case !holder.Role.May(caller.RoleOperator):
		return secret.Value{}, time.Time{}, errRole
	}
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // It never fails.
	value, now := base64.RawURLEncoding.EncodeToString(raw[:]), present()
	session := Session{
		ID: "console_" + strings.ToLower(rand.Text()), Operator: holder.Name, Token: digest,
		IdleAt: now.Add(idleTime), EndsAt: now.Add(sessionTime),
	}
	if err := s.store.Drop(ctx, now.Add(-keptTime), dropped); err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("drop console sessions: %w", err)
	}
	entry := Entry{At: now, Operator: holder.Name, Request: request, Action: ActionSignIn, Details: map[string]any{"session": session.ID}}
	if err := s.store.Insert(ctx, session, digestOf(value), now, entry); err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("store console session: %w", err)
	}
	return secret.New(value), session.EndsAt, nil
}

// Session returns the session with a secret, whose token is still an operator's, and extends it.
func (s *Sessions) Session(ctx context.Context, text string) (*Session, error) {
	now, digest := present(), digestOf(text)
	found, err := s.store.Session(ctx, digest, now)
	if err != nil {
		return nil, fmt.Errorf("read console session: %w", err)
	}
	if found == nil {
		return nil, ErrSession
	}
	if holder, ok := s.tokens.Holder(found.Token); !ok || !holder.Role.May(caller.RoleOperator) {
		return nil, ErrSession
	}
	if next, extend := extension(found, now); extend {
		if err := s.store.Extend(ctx, digest, next, now); err != nil {
			return nil, fmt.Errorf("extend console session: %w", err)
		}
		found.IdleAt = next
	}
	return found, nil
}

// extension returns when a session that is used at now ends unless it is used again, and reports whether that is worth
// writing.
func extension(s *Session, now time.Time) (idleAt time.Time, extend bool) {
	next := now.Add(idleTime)
	if next.After(s.EndsAt) {
		next = s.EndsAt
	}
	return next, next.Sub(s.IdleAt) >= extendAfter || next.Equal(s.EndsAt) && !s.IdleAt.Equal(s.EndsAt)
}

// End ends the session with a secret, if there is one.
func (s *Sessions) End(ctx context.Context, text string) error {
	if err := s.store.End(ctx, digestOf(text), present()); err != nil {
		return fmt.Errorf("end console session: %w", err)
	}
	return nil
}

// Record stores an audit entry of what a session is about to do.
func (s *Sessions) Record(ctx context.Context, session *Session, request, organization string, details map[string]any) error {
	err := s.store.Audit(ctx, Entry{
		At: present(), Operator: session.Operator, Request: request, Action: ActionCall, Organization: organization, Details: details,
	})
	if err != nil {
		return fmt.Errorf("audit a call of the console: %w", err)
	}
	return nil
}

// Organizations returns the organizations after one whose names begin with prefix, in the order of their names.
func (s *Sessions) Organizations(ctx context.Context, prefix, after string, limit int) ([]Organization, error) {
	found, err := s.store.Organizations(ctx, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list organizations: %w", err)
	}
	return found, nil
}
