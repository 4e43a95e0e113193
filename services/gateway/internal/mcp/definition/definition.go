// Package definition holds what tool servers say of their tools, and whether people have reviewed it. A definition is
// identified by its digest: a server that changes a description or a schema has another definition, which has no
// review yet. Package upstream reads the definitions, package toolcall compares them at each call; internal/postgres
// stores them.
package definition

import (
	"encoding/json"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

// Digest is the SHA-256 of a definition in its canonical form (RFC 8785), with the server and the name of the tool.
type Digest [32]byte

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
}
