// Package session gives the older revisions of the Model Context Protocol their sessions without a store of them: what a
// session is, is sealed in its id, so that every replica reads it and none is lost with a replica. Only what changes is
// stored, until the session expires: that it was ended, and which log messages are wanted. A session authenticates no one: it is of use to its own principal alone.
// Package api/mcp begins, opens and ends sessions.
package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/platform/apierr"
)

const (
	// Life is how long a session lasts.
	Life = 24 * time.Hour
	// MaxID bounds an id, in bytes.
	MaxID = 4096
	// maxCapabilities bounds what is kept of a client's capabilities, in bytes: an id is a header. Of more, nothing is kept.
	maxCapabilities = 1024
	// storeTime bounds the look-up of what was ended.
	storeTime = 500 * time.Millisecond
)

// Owner is whose a session is.
type Owner struct {
	Organization string
	// Key is the first of the customer keys that took turns, Service the first-party caller, and User on whose behalf the
	// calls are made.
	Key, Service, User string
	// Server is the one whose path the session is of; empty for the path of all.
	Server string
}

// Session is what was agreed at a handshake.
type Session struct {
	// ID names the session among those of its organization. It is none that a client sends.
	ID    string
	Owner Owner
	// Version is the revision of the protocol, and Capabilities are the client's: an object.
	Version      string
	Capabilities json.RawMessage
	Expires      time.Time
	// Level is the least severe level of log messages that the client wants, as wire.Level numbers them; -1 for none.
	Level int
}

// State is what of a session changes.
type State struct {
	Ended bool
	// Level is -1 if none was set.
	Level int
}

// Store stores the states of sessions; all replicas share it.
type Store interface {
	// End ends a session, and SetLevel sets its level. They return ErrFull where the organization has too many such
	// sessions that have not expired.
	End(ctx context.Context, organization, id string, expires time.Time) error
	SetLevel(ctx context.Context, organization, id string, expires time.Time, level int) error
	Get(ctx context.Context, organization, id string) (State, error)
}

// Errors of sessions.
var (
	// ErrNotFound is the error of an id that is none, or is another principal's, or has expired or been ended.
	ErrNotFound = apierr.NotFound("session")
	// ErrFull is the error of a state that is not stored.
	ErrFull = &apierr.Error{
		Kind: apierr.KindRateLimited, Reason: apierr.ReasonRateLimited, Class: apierr.ClassTransient, RetryAfter: time.Minute,
		Text: "the organization has too many sessions that were ended, or have a level of log messages; this one stays as it is",
	}
	errAway = apierr.Unavailable("the state of the session can't be read or stored at the moment", nil)
)

// Manager begins, opens and ends sessions. Safe for concurrent use.
type Manager struct {
	Sealer ticket.Sealer
	Store  Store
	// Now returns the time; nil is time.Now.
	Now func() time.Time
}

// purpose binds ids to their use.
const purpose = "session of the Model Context Protocol"

// text is a session as it is sealed.
type text struct {
	ID           string          `json:"i"`
	Key          string          `json:"k,omitempty"`
	Service      string          `json:"s,omitempty"`
	User         string          `json:"u,omitempty"`
	Server       string          `json:"m,omitempty"`
	Version      string          `json:"v"`
	Capabilities json.RawMessage `json:"c,omitempty"`
}

func (m *Manager) tickets() *ticket.Tickets { return &ticket.Tickets{Sealer: m.Sealer, Now: m.Now} }

func (m *Manager) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// Begin returns the id of a new session: visible ASCII of at most MaxID bytes.
func (m *Manager) Begin(of Owner, version string, capabilities json.RawMessage) (id string, err error) {
	if len(capabilities) > maxCapabilities {
		capabilities = nil
	} else if capabilities != nil {
		compact := jsontext.Value(append([]byte(nil), capabilities...))
		if err := compact.Compact(); err != nil {
			return "", fmt.Errorf("begin session: %w", err)
		}
		capabilities = json.RawMessage(compact)
	}
	id, err = m.tickets().Seal(of.Organization, purpose, text{
		ID: rand.Text(), Key: of.Key, Service: of.Service, User: of.User, Server: of.Server, Version: version, Capabilities: capabilities,
	}, m.now().Add(Life))
	if err != nil {
		return "", fmt.Errorf("begin session: %w", err)
	}
	if len(id) > MaxID {
		return "", errors.New("begin session: the names of its principal are too long")
	}
	return id, nil
}

// Open returns the session of an id, if it is its owner's and goes on. The error is ErrNotFound, or says that the store
// can't be read.
func (m *Manager) Open(ctx context.Context, of Owner, id string) (*Session, error) {
	s, err := m.read(of, id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	state, err := m.Store.Get(ctx, of.Organization, s.ID)
	switch {
	case err != nil:
		return nil, errAway.Wrap(err)
	case state.Ended:
		return nil, ErrNotFound
	}
	s.Level = state.Level
	return s, nil
}

// End ends the session of an id. The errors are those of Open, and ErrFull.
func (m *Manager) End(ctx context.Context, of Owner, id string) error {
	s, err := m.Open(ctx, of, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return stored(m.Store.End(ctx, of.Organization, s.ID, s.Expires))
}

// SetLevel sets the level of an open session.
func (m *Manager) SetLevel(ctx context.Context, s *Session, level int) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return stored(m.Store.SetLevel(ctx, s.Owner.Organization, s.ID, s.Expires, level))
}

// stored returns the error of a state that was to be stored.
func stored(err error) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	return errAway.Wrap(err)
}

// read unseals an id.
func (m *Manager) read(of Owner, id string) (*Session, error) {
	if len(id) > MaxID {
		return nil, ErrNotFound
	}
	var t text
	expires, err := m.tickets().Open(of.Organization, purpose, id, &t)
	if err != nil {
		return nil, ErrNotFound
	}
	s := &Session{
		ID: t.ID, Owner: Owner{of.Organization, t.Key, t.Service, t.User, t.Server}, Version: t.Version, Capabilities: t.Capabilities,
		Expires: expires, Level: -1,
	}
	if s.Owner != of {
		return nil, ErrNotFound
	}
	return s, nil
}
