// Package conversation keeps the responses of the Responses API that their callers may refer to later: each with the
// input of its turn, sealed to its organization. A conversation is a response with all that precede it. Package api
// stores and reads them; internal/postgres keeps the rows.
package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"
)

// Errors of conversations.
var (
	// ErrNotFound is the error of a response that is not stored, is no longer kept, or belongs to another organization or
	// owner.
	ErrNotFound = errors.New("no such response")
	// ErrTooLong is the error of a conversation beyond MaxTurns or MaxBytes.
	ErrTooLong = errors.New("the conversation is too long")
)

// Bounds of one conversation.
const (
	// MaxTurns is the largest number of turns.
	MaxTurns = 4096
	// MaxBytes bounds all turns together, in bytes of JSON.
	MaxBytes = 16 << 20
	// MaxReferences is the largest number of items that one request may refer to by their ids.
	MaxReferences = 1024
)

// Scope is whose responses may be read: those of other organizations and owners don't exist for it.
type Scope struct{ Organization, Owner string }

// Record is one response with the input that it answered.
type Record struct {
	ID string
	// Previous is the response that it continues; empty for none.
	Previous string
	// Input is the JSON array of the turn's own items, Response the response object.
	Input, Response json.RawMessage
	// Items are the ids of the items of both.
	Items     []string
	CreatedAt time.Time
}

// Row is a stored turn, sealed.
type Row struct {
	Scope
	ID, Previous string
	Items        []string
	Key          string
	Sealed       []byte
	// Size is the number of bytes before sealing.
	Size                 int
	CreatedAt, ExpiresAt time.Time
}

// Store keeps rows until they expire.
type Store interface {
	Insert(ctx context.Context, r Row) error
	// Chain returns a response and its predecessors, latest first, until it has turns of them or they exceed bytes. It is
	// empty where there is no such response.
	Chain(ctx context.Context, s Scope, id string, now time.Time, turns int, bytes int64) ([]Row, error)
	// Holding returns at most limit responses that hold any of some items, latest first.
	Holding(ctx context.Context, s Scope, items []string, now time.Time, limit int) ([]Row, error)
	// Delete deletes a response; false where there was none.
	Delete(ctx context.Context, s Scope, id string, now time.Time) (bool, error)
	// Drop deletes at most limit expired responses, and returns their number.
	Drop(ctx context.Context, now time.Time, limit int) (int, error)
	// Erase deletes at most limit responses of an organization that were made until a time, and returns their number.
	Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error)
}

// Sealer encrypts texts to an organization, each bound to a name.
type Sealer interface {
	Seal(organization, name string, text []byte) (key string, sealed []byte, err error)
	Open(organization, name, key string, sealed []byte) ([]byte, error)
}

// Manager stores and reads turns. Safe for concurrent use.
type Manager struct {
	store     Store
	sealer    Sealer
	retention func(organization string) time.Duration
}

// NewManager returns a Manager. retention returns how long an organization's turns are kept.
func NewManager(store Store, sealer Sealer, retention func(organization string) time.Duration) *Manager {
	return &Manager{store, sealer, retention}
}

// content is what is sealed.
type content struct {
	Input    json.RawMessage `json:"input"`
	Response json.RawMessage `json:"response"`
}

// Keep stores a turn.
func (m *Manager) Keep(ctx context.Context, s Scope, t Record) error {
	row, err := m.Seal(s, t)
	if err != nil {
		return err
	}
	return m.store.Insert(ctx, row)
}

// Seal returns the row of a turn, for what stores it together with rows of its own.
func (m *Manager) Seal(s Scope, t Record) (Row, error) {
	text, err := json.Marshal(content{t.Input, t.Response})
	if err != nil {
		return Row{}, fmt.Errorf("encode response: %w", err)
	}
	key, sealed, err := m.sealer.Seal(s.Organization, sealName(t.ID), s2.Encode(nil, text))
	if err != nil {
		return Row{}, fmt.Errorf("seal response: %w", err)
	}
	return Row{
		Scope: s, ID: t.ID, Previous: t.Previous, Items: t.Items, Key: key, Sealed: sealed, Size: len(text),
		CreatedAt: t.CreatedAt, ExpiresAt: t.CreatedAt.Add(m.retention(s.Organization)),
	}, nil
}

// sealName is what a sealed turn is bound to, so that none can stand in for another.
func sealName(id string) string { return "response " + id }

// Get returns one turn. The error is ErrNotFound where there is none.
func (m *Manager) Get(ctx context.Context, s Scope, id string) (Record, error) {
	rows, err := m.store.Chain(ctx, s, id, time.Now(), 1, MaxBytes)
	if err != nil {
		return Record{}, err
	}
	if len(rows) == 0 {
		return Record{}, ErrNotFound
	}
	return m.open(s, rows[0])
}

// Chain returns a response with all that precede it, oldest first. The error is ErrNotFound where one of them is not
// there, and ErrTooLong beyond the bounds.
func (m *Manager) Chain(ctx context.Context, s Scope, id string) ([]Record, error) {
	rows, err := m.store.Chain(ctx, s, id, time.Now(), MaxTurns, MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := check(rows); err != nil {
		return nil, err
	}
	turns := make([]Record, len(rows))
	for i, row := range rows {
		if turns[len(rows)-1-i], err = m.open(s, row); err != nil {
			return nil, err
		}
	}
	return turns, nil
}

// check returns an error unless rows are a whole conversation.
func check(rows []Row) error {
	if len(rows) == 0 {
		return ErrNotFound
	}
	var bytes int64
	for _, row := range rows {
		bytes += int64(row.Size)
	}
	switch first := rows[len(rows)-1]; {
	case bytes > MaxBytes, first.Previous != "" && len(rows) == MaxTurns:
		return ErrTooLong
	case first.Previous != "": // It was deleted, or has expired.
		return ErrNotFound
	}
	return nil
}

func (m *Manager) open(s Scope, row Row) (Record, error) {
	packed, err := m.sealer.Open(s.Organization, sealName(row.ID), row.Key, row.Sealed)
	if err != nil {
		return Record{}, fmt.Errorf("open response: %w", err)
	}
	if size, err := s2.DecodedLen(packed); err != nil || size != row.Size {
		return Record{}, errors.New("open response: its size is not the one that was stored")
	}
	text, err := s2.Decode(nil, packed)
	if err != nil {
		return Record{}, fmt.Errorf("unpack response: %w", err)
	}
	var c content
	if err := json.Unmarshal(text, &c); err != nil {
		return Record{}, fmt.Errorf("decode response: %w", err)
	}
	return Record{ID: row.ID, Previous: row.Previous, Input: c.Input, Response: c.Response, CreatedAt: row.CreatedAt}, nil
}

// Holding returns the turns that hold any of some items, latest first.
func (m *Manager) Holding(ctx context.Context, s Scope, items []string) ([]Record, error) {
	if len(items) > MaxReferences {
		return nil, ErrTooLong
	}
	rows, err := m.store.Holding(ctx, s, items, time.Now(), MaxReferences)
	if err != nil {
		return nil, err
	}
	var turns []Record
	bytes := 0
	for _, row := range rows {
		if bytes += row.Size; bytes > MaxBytes {
			return nil, ErrTooLong
		}
		turn, err := m.open(s, row)
		if err != nil {
			return nil, err
		}
		turns = append(turns, turn)
	}
	return turns, nil
}

// Delete deletes a response. The error is ErrNotFound where there is none.
func (m *Manager) Delete(ctx context.Context, s Scope, id string) error {
	deleted, err := m.store.Delete(ctx, s, id, time.Now())
	if err == nil && !deleted {
		err = ErrNotFound
	}
	return err
}

// eraseBatch is the number of responses that one statement deletes.
const eraseBatch = 1000

// Erase deletes all responses of an organization that were made until now, and returns their number.
func (m *Manager) Erase(ctx context.Context, organization string) (erased int, err error) {
	until := time.Now()
	for {
		n, err := m.store.Erase(ctx, organization, until, eraseBatch)
		erased += n
		if err != nil || n < eraseBatch {
			return erased, err
		}
	}
}
