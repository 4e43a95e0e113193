// Package portal lets a customer's people use what the customer's keys open, in a browser and without a key: an operator
// makes a link that works once, the link opens a session, and the session has an organization, an owner, a user and
// scopes. The pages are embedded files. Package control serves them and the operations that they call.
package portal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
	"switchyard.dev/services/platform/secret"
)

const (
	// linkTime is how long a link may be used, sessionTime how long the session lasts that it opens.
	linkTime    = 10 * time.Minute
	sessionTime = time.Hour
	// keptTime is how long a link or session is kept after it was made.
	keptTime = 24 * time.Hour
	// dropped bounds how many old ones are deleted when one is made.
	dropped = 100
)

// Digest is the SHA-256 of the secret of a link or a session. The secret has 256 random bits, so that it needs no salt.
type Digest [sha256.Size]byte

// Request is a request for a link.
type Request struct {
	Organization string
	Owner, User  string // optional
	Scopes       []apikey.Permission
	ReturnURL    string
}

// Session is what a browser may do.
type Session struct {
	ID           string
	Organization string
	Owner, User  string // empty for none
	Scopes       []apikey.Permission
	ReturnURL    string
	ExpiresAt    time.Time
	// Operator acts for the organization in the operators' console; empty in the portal.
	Operator string
}

// Key stands for the key in what the session calls: in usage, and in the gateway's spend.
func (s *Session) Key() string {
	if s.Operator != "" {
		return "console"
	}
	return "portal"
}

// Link is a new link to the portal.
type Link struct {
	Session

	Digest    Digest
	CreatedBy string
	CreatedAt time.Time
	UntilAt   time.Time // when the link ends
}

// Store persists links and sessions.
type Store interface {
	// Insert stores a link with its audit entry.
	Insert(ctx context.Context, link Link, entry apikey.Entry) error
	// Open gives the link its session and reports true. It reports false, and changes nothing, if there is no such link,
	// or it has a session, or it has ended at now. Of several calls at once, one opens it.
	Open(ctx context.Context, link, session Digest, expiresAt, now time.Time) (opened bool, err error)
	// Session returns a session that has not ended at now; nil without an error if there is none.
	Session(ctx context.Context, session Digest, now time.Time) (*Session, error)
	End(ctx context.Context, session Digest, now time.Time) error
	// Drop deletes up to limit links and sessions that were made before.
	Drop(ctx context.Context, before time.Time, limit int) error
}

// Sessions makes links and opens sessions.
type Sessions struct {
	store Store
	table route.Table
}

// NewSessions returns Sessions over a store. The table holds all routes, and says which scopes an owner's session can't
// have.
func NewSessions(store Store, table route.Table) *Sessions { return &Sessions{store, table} }

// present returns the current time with the precision of Postgres.
func present() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func digestOf(text string) Digest { return sha256.Sum256([]byte(text)) }

// newSecret returns 256 random bits as text.
func newSecret() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // It never fails.
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// Mint makes a link for an operator, and returns its secret and when it ends. No link leaves without an entry in the audit.
func (s *Sessions) Mint(ctx context.Context, r Request, by apikey.Actor) (text secret.Value, until time.Time, err error) {
	if r, err = r.check(s.table); err != nil {
		return secret.Value{}, time.Time{}, err
	}
	now, value := present(), newSecret()
	link := Link{
		Session: Session{
			ID: "portal_" + strings.ToLower(rand.Text()), Organization: r.Organization, Owner: r.Owner, User: r.User,
			Scopes: r.Scopes, ReturnURL: r.ReturnURL,
		},
		Digest: digestOf(value), CreatedBy: by.Name, CreatedAt: now, UntilAt: now.Add(linkTime),
	}
	if err := s.store.Drop(ctx, now.Add(-keptTime), dropped); err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("drop portal sessions: %w", err)
	}
	if err := s.store.Insert(ctx, link, link.entry(by)); err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("store portal link: %w", err)
	}
	return secret.New(value), link.UntilAt, nil
}

// ActionLink is the action of a new link in the audit.
const ActionLink = "portal.link"

// entry returns the audit entry of a new link, which names its session by id and has neither secret nor digest.
func (l *Link) entry(by apikey.Actor) apikey.Entry {
	details := map[string]any{"session": l.ID, "scopes": l.Scopes}
	if l.Owner != "" {
		details["owner_id"] = l.Owner
	}
	if l.User != "" {
		details["user_id"] = l.User
	}
	return apikey.Entry{At: l.CreatedAt, Actor: by, Action: ActionLink, Organization: l.Organization, Details: details}
}

// ErrLink refuses a link; it doesn't say why.
var ErrLink = apierr.New(apierr.KindNotFound, apierr.ReasonNotFound, "this link was used, has expired, or never was one; ask for another")

// Open uses up a link, and returns the secret of its session and when that ends.
func (s *Sessions) Open(ctx context.Context, link string) (text secret.Value, until time.Time, err error) {
	now, value := present(), newSecret()
	until = now.Add(sessionTime)
	opened, err := s.store.Open(ctx, digestOf(link), digestOf(value), until, now)
	switch {
	case err != nil:
		return secret.Value{}, time.Time{}, fmt.Errorf("open portal link: %w", err)
	case !opened:
		return secret.Value{}, time.Time{}, ErrLink
	}
	return secret.New(value), until, nil
}

// ErrSession refuses a request without a session.
var ErrSession = apierr.New(apierr.KindUnauthenticated, apierr.ReasonUnauthenticated, "there is no session, or it has ended; ask for another link")

// Session returns the session with a secret.
func (s *Sessions) Session(ctx context.Context, text string) (*Session, error) {
	found, err := s.store.Session(ctx, digestOf(text), present())
	switch {
	case err != nil:
		return nil, fmt.Errorf("read portal session: %w", err)
	case found == nil:
		return nil, ErrSession
	}
	return found, nil
}

// End ends the session with a secret, if there is one.
func (s *Sessions) End(ctx context.Context, text string) error {
	if err := s.store.End(ctx, digestOf(text), present()); err != nil {
		return fmt.Errorf("end portal session: %w", err)
	}
	return nil
}

// check validates a request.
func (r Request) check(table route.Table) (Request, error) {
	r.Scopes = slices.Compact(slices.Sorted(slices.Values(r.Scopes)))
	if r.Organization == "" {
		return r, apierr.Invalid("organization_id", "is required")
	}
	for field, value := range map[string]string{"organization_id": r.Organization, "owner_id": r.Owner, "user_id": r.User} {
		if !caller.Printable(value) {
			return r, apierr.Invalid(field, "must be printable ASCII without spaces, at most 256 characters")
		}
		if screen.IDLooksLikeKey(value) {
			return r, apierr.Invalid(field, "seems to hold a key; send an identifier")
		}
	}
	if err := checkScopes(r, table); err != nil {
		return r, err
	}
	return r, checkReturn(r.ReturnURL)
}

// checkScopes validates the scopes, and that the identity that they act for is known.
func checkScopes(r Request, table route.Table) error {
	if _, ok := grantsOf(r.Scopes); !ok || len(r.Scopes) == 0 {
		return apierr.Invalid("scopes", "must hold at least one scope, such as webhooks:endpoints:read or "+
			string(ScopeKeysRead)+", and nothing else; read and write are permissions of API keys, not scopes")
	}
	var whole []string
	for _, scope := range r.Scopes {
		switch {
		case r.User == "" && reaches(table, scope, route.ScopedByUser):
			return apierr.Invalid("user_id", "is required with scopes that reach a user's records, such as the inbox and push devices: "+string(scope))
		case r.Owner != "" && (isKeys(scope) || reaches(table, scope, route.ScopedByOrganization)):
			whole = append(whole, string(scope))
		}
	}
	if len(whole) > 0 {
		return apierr.Invalid("scopes", "must not hold "+strings.Join(whole, ", ")+" with an owner_id: these act on the whole organization")
	}
	return nil
}

// maxURL bounds a return URL in bytes.
const maxURL = 2048

// checkReturn validates the URL to which the pages link back.
func checkReturn(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "" || len(text) > maxURL || err != nil || u.User != nil || u.Hostname() == "":
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return apierr.Invalid("return_url", "must be an https URL without credentials, or http on localhost, at most 2048 bytes")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
