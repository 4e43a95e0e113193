// Package file keeps the files of organizations: those that callers upload, and the results of batch jobs. The content is
// in pieces, each sealed to its organization, so that a file of any size takes the memory of a piece. Package api serves
// them and package batchjob writes them; internal/postgres keeps the rows.
package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"

	"switchyard.dev/services/gateway/internal/serving/conversation"
)

// Errors of files.
var (
	// ErrNotFound is the error of a file that is not there, is no longer kept, or belongs to another organization or owner.
	ErrNotFound = errors.New("no such file")
	// ErrFull is the error of a file for which its organization has no room; see MaxFiles and MaxBytes.
	ErrFull = errors.New("the organization's files take all of their room")
)

// Bounds of the files of an organization.
const (
	MaxFiles = 10_000
	MaxBytes = 8 << 30
)

// pieceSize is the size of a piece before it is packed, in bytes.
const pieceSize = 1 << 20

// Purpose is what a file is for, in OpenAI's words.
type Purpose string

// The purposes. Files of the last two are requests and results in Anthropic's form, which has no files: callers don't see
// them.
const (
	PurposeBatch              Purpose = "batch"
	PurposeBatchOutput        Purpose = "batch_output"
	PurposeUserData           Purpose = "user_data"
	PurposeVision             Purpose = "vision"
	PurposeMessageBatch       Purpose = "message_batch"
	PurposeMessageBatchOutput Purpose = "message_batch_output"
)

// Shown are the purposes of the files that callers see.
func Shown() []Purpose {
	return []Purpose{PurposeBatch, PurposeBatchOutput, PurposeUserData, PurposeVision}
}

// Scope is whose files may be read: those of other organizations and owners don't exist for it.
type Scope = conversation.Scope

// Sealer encrypts texts to an organization; see conversation.Sealer.
type Sealer = conversation.Sealer

// File is a file without its content.
type File struct {
	ID, Name             string
	Purpose              Purpose
	Size                 int64
	CreatedAt, ExpiresAt time.Time
}

// Row is a stored file, its name sealed.
type Row struct {
	Scope

	ID                   string
	Purpose              Purpose
	Key                  string
	SealedName           []byte
	Size                 int64
	CreatedAt, ExpiresAt time.Time
}

// Piece is a stored piece of a file's content, packed and sealed.
type Piece struct {
	Number int
	Key    string
	Sealed []byte
}

// Page is a part of a list.
type Page struct {
	Purposes []Purpose
	// After is the id of the file before the page; empty for the first page.
	After     string
	Ascending bool
	Limit     int
}

// Store keeps rows and pieces until they expire. A file can be read only once it is complete.
type Store interface {
	// Create stores a whole file unless its organization has no room for it: then it returns false. An error of the pieces
	// is returned.
	Create(ctx context.Context, r Row, pieces iter.Seq2[Piece, error], mostFiles int, mostBytes int64) (bool, error)
	// Begin stores a file without content. One of the same id that was begun before loses its content; one that is complete
	// is an error.
	Begin(ctx context.Context, r Row) error
	// Append adds to the content of a file that was begun. One that is complete or was deleted is an error.
	Append(ctx context.Context, id string, p Piece) error
	Get(ctx context.Context, s Scope, id string, now time.Time) (Row, bool, error)
	List(ctx context.Context, s Scope, p Page, now time.Time) ([]Row, error)
	// Pieces returns at most limit pieces from a number on, in order.
	Pieces(ctx context.Context, id string, from, limit int) ([]Piece, error)
	// Delete deletes a file; false where there was none.
	Delete(ctx context.Context, s Scope, id string, now time.Time) (bool, error)
	// Drop deletes at most limit expired files, and returns their number.
	Drop(ctx context.Context, now time.Time, limit int) (int, error)
	// Erase deletes at most limit files of an organization that were made until a time, and returns their number.
	Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error)
}

// Manager stores and reads files. Safe for concurrent use.
type Manager struct {
	store     Store
	sealer    Sealer
	retention func(organization string) time.Duration
}

// NewManager returns a Manager. retention returns how long an organization's files are kept.
func NewManager(store Store, sealer Sealer, retention func(organization string) time.Duration) *Manager {
	return &Manager{store, sealer, retention}
}

// NewID returns the id of a new file.
func NewID() string { return "file-" + rand.Text() }

var ownID = regexp.MustCompile(`^file-[A-Z2-7]{26}$`)

// IsID reports whether an id has the form of the ids of stored files, which no vendor uses.
func IsID(id string) bool { return ownID.MatchString(id) }

// nameOf and pieceOf return the context that a sealed text is bound to, so that one cannot be replaced by another.
func nameOf(id string) string              { return "file name " + id }
func pieceOf(id string, number int) string { return fmt.Sprintf("file %s %d", id, number) }

// Create stores a file until expires; zero means the organization's retention, which is also the latest time.
func (m *Manager) Create(ctx context.Context, s Scope, f File, content []byte) (File, error) {
	f.Size = int64(len(content))
	row, err := m.row(s, &f)
	if err != nil {
		return File{}, err
	}
	stored, err := m.store.Create(ctx, row, m.pieces(s, f.ID, content), MaxFiles, MaxBytes)
	if err == nil && !stored {
		err = ErrFull
	}
	return f, err
}

// pieces returns the pieces of a file's content. Each is sealed when it is stored, so that only one is in memory.
func (m *Manager) pieces(s Scope, id string, content []byte) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		for number := 0; len(content) > 0; number++ {
			n := min(len(content), pieceSize)
			piece, err := m.seal(s, id, number, content[:n])
			if !yield(piece, err) || err != nil {
				return
			}
			content = content[n:]
		}
	}
}

// row returns the row of a file, and sets when the file expires.
func (m *Manager) row(s Scope, f *File) (Row, error) {
	if last := f.CreatedAt.Add(m.retention(s.Organization)); f.ExpiresAt.IsZero() || f.ExpiresAt.After(last) {
		f.ExpiresAt = last
	}
	key, sealed, err := m.sealer.Seal(s.Organization, nameOf(f.ID), []byte(f.Name))
	if err != nil {
		return Row{}, fmt.Errorf("seal file name: %w", err)
	}
	return Row{s, f.ID, f.Purpose, key, sealed, f.Size, f.CreatedAt, f.ExpiresAt}, nil
}

func (m *Manager) seal(s Scope, id string, number int, content []byte) (Piece, error) {
	key, sealed, err := m.sealer.Seal(s.Organization, pieceOf(id, number), s2.Encode(nil, content))
	if err != nil {
		return Piece{}, fmt.Errorf("seal file: %w", err)
	}
	return Piece{number, key, sealed}, nil
}

// Get returns a file. The error is ErrNotFound where there is none.
func (m *Manager) Get(ctx context.Context, s Scope, id string) (File, error) {
	if strings.IndexByte(id, 0) >= 0 { // Stores take no such texts, and no file has such an id.
		return File{}, ErrNotFound
	}
	row, found, err := m.store.Get(ctx, s, id, time.Now())
	if err == nil && !found {
		err = ErrNotFound
	}
	if err != nil {
		return File{}, err
	}
	return m.open(row)
}

func (m *Manager) open(r Row) (File, error) {
	name, err := m.sealer.Open(r.Organization, nameOf(r.ID), r.Key, r.SealedName)
	if err != nil {
		return File{}, fmt.Errorf("open file name: %w", err)
	}
	return File{r.ID, string(name), r.Purpose, r.Size, r.CreatedAt, r.ExpiresAt}, nil
}

// List returns a page of files, and whether others follow it.
func (m *Manager) List(ctx context.Context, s Scope, p Page) (files []File, more bool, err error) {
	limit := p.Limit
	p.Limit++
	rows, err := m.store.List(ctx, s, p, time.Now())
	if err != nil {
		return nil, false, err
	}
	more = len(rows) > limit
	for _, row := range rows[:min(len(rows), limit)] {
		f, err := m.open(row)
		if err != nil {
			return nil, false, err
		}
		files = append(files, f)
	}
	return files, more, nil
}

// readPieces is the number of pieces that are read at once.
const readPieces = 4

// Read returns the content of a file, piece by piece. It ends with the first error.
func (m *Manager) Read(ctx context.Context, s Scope, f File) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var size int64
		for next := 0; size < f.Size; {
			pieces, err := m.store.Pieces(ctx, f.ID, next, readPieces)
			if err == nil && len(pieces) == 0 { // It was deleted meanwhile.
				err = ErrNotFound
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, p := range pieces {
				content, err := m.unseal(s, f.ID, next, p)
				if !yield(content, err) || err != nil {
					return
				}
				next++
				size += int64(len(content))
			}
		}
	}
}

func (m *Manager) unseal(s Scope, id string, number int, p Piece) ([]byte, error) {
	if p.Number != number {
		return nil, ErrNotFound
	}
	packed, err := m.sealer.Open(s.Organization, pieceOf(id, number), p.Key, p.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	if size, err := s2.DecodedLen(packed); err != nil || size > pieceSize {
		return nil, errors.New("open file: a piece is larger than any that was stored")
	}
	content, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, fmt.Errorf("unpack file: %w", err)
	}
	return content, nil
}

// Delete deletes a file. The error is ErrNotFound where there is none.
func (m *Manager) Delete(ctx context.Context, s Scope, id string) error {
	deleted, err := m.store.Delete(ctx, s, id, time.Now())
	if err == nil && !deleted {
		err = ErrNotFound
	}
	return err
}

// eraseAtOnce is the number of files that one statement deletes.
const eraseAtOnce = 20

// Erase deletes all files of an organization that were made until now, and returns their number.
func (m *Manager) Erase(ctx context.Context, organization string) (erased int, err error) {
	until := time.Now()
	for {
		n, err := m.store.Erase(ctx, organization, until, eraseAtOnce)
		erased += n
		if err != nil || n < eraseAtOnce {
			return erased, err
		}
	}
}
