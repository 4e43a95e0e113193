// Package definition holds what tool servers say of their tools, and whether people have reviewed it. A definition is
// identified by its digest: a server that changes a description or a schema has another definition, which has no
// review yet. Package listing stores what servers list; package toolcall asks the Registry at each call; internal/postgres
// stores the definitions.
package definition

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// Digest is the SHA-256 of a definition in its canonical form (RFC 8785), with the server and the name of the tool.
type Digest [32]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Definition is a tool as its server defines it.
type Definition struct {
	Server toolserver.Key
	// Name is the server's own name of the tool.
	Name   string
	Digest Digest
	// Text is the whole definition as the server sent it, with members that the gateway doesn't know.
	Text json.RawMessage
}

// Status is the status of a review.
type Status string

// The statuses. The definitions of a server that was never reviewed are pending.
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Rejected Status = "rejected"
)

// Reviewed is a definition with its review.
type Reviewed struct {
	Definition
	Status             Status
	ReviewedBy, Reason string
	// FirstSeenAt is when the server first sent it, SeenAt the latest time that it was listed. ReviewedAt is zero before
	// the review.
	FirstSeenAt, SeenAt, ReviewedAt time.Time
	// Present reports whether the server's latest listing holds it.
	Present bool
	// Before is the definition of the tool that was approved last, if that is another one; nil otherwise.
	Before *Definition
}

// State is the state of a server's listing.
type State struct {
	// Digest identifies the latest listing, which was made at ListedAt; both are zero before the first.
	Digest          Digest
	ProtocolVersion string
	ListedAt        time.Time
	// Failures counts those since the last success. The rest is about the last one, and zero without any.
	Failures int
	// ErrorClass is one of package listing's classes. ErrorText is safe to show.
	ErrorClass, ErrorText string
	ErrorAt               time.Time
}
