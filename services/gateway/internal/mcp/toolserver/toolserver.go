// Package toolserver holds the servers of the Model Context Protocol that are registered: where they are, how the gateway
// authenticates there, what a call costs, and how many may be under way. Package api registers them, package toolcall
// looks them up; internal/postgres stores them.
package toolserver

import (
	"regexp"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
)

// Server is a registered server. Those of all organizations have no Organization; a server of an organization's own
// takes precedence over one of all with the same ID.
type Server struct {
	Organization, ID string
	// Prefix is what the names of its tools begin with where the tools of several servers are listed together.
	Prefix string
	// URL is the address of a server that speaks streamable HTTP; Command is the name, in the operator's policy, of a
	// local one. Exactly one is set.
	URL, Command string
	Credential   Credential
	// Features are what callers are offered of it; see Offers.
	Features []Feature
	// Price is what a call costs.
	Price price.Pico
	// Timeout bounds a call, to the end of its answer.
	Timeout time.Duration
	// Concurrency and PerMinute bound the calls of each organization; 0 is no bound.
	Concurrency, PerMinute int
	// Version grows by one with each change, from 1.
	Version int
	// CreatedBy is the principal that registered it, MovedBy the one that last changed URL or Command; empty if they never
	// changed. Neither may review its definitions.
	CreatedBy, MovedBy   string
	CreatedAt, UpdatedAt time.Time
}

// Key identifies a server.
type Key struct{ Organization, ID string }

// Key returns the server's key.
func (s *Server) Key() Key { return Key{s.Organization, s.ID} }

// Separator stands between a server's prefix and a tool's own name; no prefix holds it.
const Separator = "__"

// Exposed returns the name of a tool among those of all servers.
func (s *Server) Exposed(tool string) string { return s.Prefix + Separator + tool }

// Exposable reports whether the name of a tool among those of all servers is one that clients take.
func (s *Server) Exposable(tool string) bool { return exposed.MatchString(s.Exposed(tool)) }

var exposed = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// Split returns the prefix and the tool's own name of an exposed name; false if it has no prefix.
func Split(exposed string) (prefix, tool string, ok bool) { return strings.Cut(exposed, Separator) }

// Custody is how a credential is kept.
type Custody string

// The custodies. A server with CustodyNone is called without a credential.
const (
	CustodyNone      Custody = ""
	CustodyReference Custody = "secret_ref"
	CustodySealed    Custody = "sealed"
)

// Credential is what the gateway authenticates with: the value of a header, or what it gets access tokens with, as it is
// stored, never in plain.
type Credential struct {
	Custody Custody
	// Header is the header's name; Scheme precedes the secret in its value, such as "Bearer", and is empty for none.
	Header, Scheme string
	// Reference names the secret, for CustodyReference.
	Reference string
	// KeyID and Ciphertext are the sealed secret, for CustodySealed.
	KeyID      string
	Ciphertext []byte
	// Fingerprint is the secret's keyed hash.
	Fingerprint string
	// OAuth is the client whose secret it is; nil for a secret that is sent itself.
	OAuth *OAuth
}

// MaxSecret is the length of the longest secret or access token, in bytes.
const MaxSecret = 8 << 10

// FitsHeader reports whether a secret or an access token can stand in a header: 1 to MaxSecret printable characters
// without spaces.
func FitsHeader(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= MaxSecret
}
