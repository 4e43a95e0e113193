package toolserver

import (
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
)

// MaxServers is how many servers an organization may have, and how many there may be of all organizations.
const MaxServers = 200

// ReasonVersionConflict is the reason of a change to a server that has changed since its caller read it.
const ReasonVersionConflict apierr.Reason = "version_conflict"

// Errors of registrations.
var (
	ErrNotFound = apierr.NotFound("tool server")
	ErrExists   = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "server_id: is registered already")
	ErrPrefix   = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "prefix: another server has it")
	ErrTooMany  = apierr.New(apierr.KindConflict, apierr.ReasonConflict, "server_id: there are 200 servers already, and no more are allowed")
	ErrVersion  = apierr.New(apierr.KindConflict, ReasonVersionConflict, "expected_version: the server has another version; read it again")
	ErrTarget   = apierr.Invalid("url", "exactly one of url and command is required")
)

// Offer is a credential that a caller sends: exactly one of Reference and Ciphertext.
type Offer struct {
	Reference, KeyID string
	Ciphertext       []byte
	// Header is empty for Authorization; Scheme is nil for the header's usual one.
	Header string
	Scheme *string
	// OAuth is the client whose secret it is; nil for a secret that is sent itself.
	OAuth *OAuth
}

// Registration is a request to register a server.
type Registration struct {
	Key
	// Prefix is empty for the ID.
	Prefix, URL, Command string
	// Credential is nil for none.
	Credential *Offer
	// Features are empty for tools alone.
	Features []Feature
	Price    price.Pico
	// Timeout is 0 for DefaultTimeout.
	Timeout                time.Duration
	Concurrency, PerMinute int
	By                     string
}

// DefaultTimeout bounds the calls of servers that were registered without a timeout.
const DefaultTimeout = time.Minute

// Update changes the fields of a server that are not nil.
type Update struct {
	// Version is the version that the caller saw; 0 for any.
	Version              int
	Prefix, URL, Command *string
	// Credential replaces the credential; NoCredential removes it.
	Credential   *Offer
	NoCredential bool
	// Features are empty for those of before.
	Features               []Feature
	Price                  *price.Pico
	Timeout                *time.Duration
	Concurrency, PerMinute *int
	By                     string
}

const maxPrefix = 32

// suitable reports whether a text may be a prefix: letters, digits and "-", and a single "_" between them.
func suitable(prefix string) bool {
	before := '_'
	for _, r := range prefix {
		ok := r == '-' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80
		if !ok && (r != '_' || before == '_') {
			return false
		}
		before = r
	}
	return before != '_' && len(prefix) <= maxPrefix
}

// server returns the server to register, without its credential.
func (r *Registration) server(now time.Time) (Server, error) {
	s := Server{
		Organization: r.Organization, ID: r.ID, Prefix: r.Prefix, URL: r.URL, Command: r.Command, Price: r.Price, Timeout: r.Timeout,
		Concurrency: r.Concurrency, PerMinute: r.PerMinute, Version: 1, CreatedBy: r.By, CreatedAt: now, UpdatedAt: now,
	}
	if s.Prefix == "" {
		s.Prefix = s.ID
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	var err error
	if s.Features, err = readFeatures(r.Features); err != nil {
		return s, err
	}
	return s, s.check()
}

// update returns the server with an update, without its new credential.
func (s Server) update(u *Update, now time.Time) (Server, error) {
	if u.Version != 0 && u.Version != s.Version {
		return s, ErrVersion
	}
	if u.URL != nil && u.Command != nil {
		return s, ErrTarget
	}
	if u.Credential != nil && u.NoCredential {
		return s, apierr.Invalid("remove_credential", "must not be true with a credential")
	}
	next := s
	next.move(u)
	set(&next.Prefix, u.Prefix)
	set(&next.Price, u.Price)
	set(&next.Timeout, u.Timeout)
	set(&next.Concurrency, u.Concurrency)
	set(&next.PerMinute, u.PerMinute)
	if u.NoCredential {
		next.Credential = Credential{}
	}
	if next.Moved(&s) {
		next.MovedBy = u.By
	}
	if next.origin() != s.origin() && next.Credential.Custody != CustodyNone && u.Credential == nil {
		return s, apierr.Invalid("credential", "is required, or remove_credential, because the new url has another scheme, host or port: the stored credential is not sent there")
	}
	err := next.check()
	if err == nil && len(u.Features) > 0 {
		next.Features, err = readFeatures(u.Features)
	}
	if err != nil {
		return s, err
	}
	next.Version, next.UpdatedAt = s.Version+1, now
	return next, nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func (s *Server) move(u *Update) {
	switch {
	case u.URL != nil:
		s.URL, s.Command = *u.URL, ""
	case u.Command != nil:
		s.URL, s.Command = "", *u.Command
	}
}

// Moved reports whether a server is another one than before: what was reviewed of that one doesn't count.
func (s *Server) Moved(before *Server) bool {
	return s.URL != before.URL || s.Command != before.Command
}

// origin returns to whom a credential is sent: the scheme, host and port of the URL, or the command.
func (s *Server) origin() string {
	if s.Command != "" {
		return "command:" + s.Command
	}
	return netguard.Origin(s.URL)
}

// check applies the rules that need nothing but the server itself.
func (s *Server) check() error {
	switch {
	case (s.URL == "") == (s.Command == ""):
		return ErrTarget
	case !suitable(s.Prefix):
		return apierr.Invalid("prefix", `is required where the id doesn't have its form: letters, digits, "-" and single "_" between them, at most 32`)
	case s.Command != "" && s.Credential.Custody != CustodyNone:
		return apierr.Invalid("credential", "must not be set for a command")
	}
	return nil
}

// CheckPlace checks a server that is new or has a new prefix against the others: servers is how many its organization
// has, and holder the ID of another server with the prefix, empty for none.
func CheckPlace(isNew bool, servers int, holder string) error {
	switch {
	case holder != "":
		return ErrPrefix
	case isNew && servers >= MaxServers:
		return ErrTooMany
	}
	return nil
}

const authorization = "Authorization"

// reserved are headers of the protocol, of connections and of the gateway's own, which no credential may replace. Names
// that begin with one of reservedPrefixes are, too.
var (
	reserved = strings.Fields(`host connection keep-alive te trailer transfer-encoding upgrade content-length content-type
		content-encoding accept accept-encoding cookie set-cookie user-agent origin referer expect via forwarded
		last-event-id traceparent tracestate baggage`)
	reservedPrefixes = []string{"mcp-", "proxy-", "sec-", "x-forwarded-", "x-switchyard-"}
)

// header returns the header and scheme that an offer names.
func (o *Offer) header() (header, scheme string, err error) {
	header = o.Header
	if header == "" {
		header = authorization
	}
	name := strings.ToLower(header)
	if slices.Contains(reserved, name) || slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return "", "", apierr.Invalid("credential.header", "must not be a header of the protocol or the connection")
	}
	switch {
	case o.Scheme != nil:
		scheme = *o.Scheme
	case strings.EqualFold(header, authorization):
		scheme = "Bearer"
	}
	return header, scheme, nil
}

// SealedTo returns the provider that a server's credential is sealed to, as package sealing binds it: it has no colon,
// and no other server or provider has it.
func SealedTo(id string) string { return "mcp/" + strings.ReplaceAll(id, ":", "%3A") }
