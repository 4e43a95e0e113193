package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/platform/pgdb"
)

// Files implements file.Store.
type Files struct{ pool *pgxpool.Pool }

// NewFiles returns the files of a database.
func NewFiles(pool *pgxpool.Pool) *Files { return &Files{pool} }

// Create implements file.Store.
func (f *Files) Create(ctx context.Context, r file.Row, pieces iter.Seq2[file.Piece, error], mostFiles int, mostBytes int64) (bool, error) {
	err := pgdb.InTx(ctx, f.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		n, err := q.InsertFile(ctx, dbsql.InsertFileParams{
			ID: r.ID, OrganizationID: r.Organization, OwnerID: r.Owner, Purpose: string(r.Purpose), KeyID: r.Key, SealedName: notNull(r.SealedName),
			Size: r.Size, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, MostFiles: int32(mostFiles), MostBytes: mostBytes,
		})
		if err == nil && n == 0 {
			err = errUnchanged
		}
		if err != nil {
			return err
		}
		for p, err := range pieces {
			if err == nil {
				err = appendPiece(ctx, q, r.ID, p)
			}
			if err != nil {
				return err
			}
		}
		_, err = q.CompleteFile(ctx, dbsql.CompleteFileParams{Size: r.Size, ExpiresAt: r.ExpiresAt, ID: r.ID})
		return err
	})
	return changed("insert file", err)
}

// errNotOpen is the error of a change to a file that is complete, or was deleted: what writes it has lost its claim, or the
// organization was erased.
var errNotOpen = errors.New("the file is complete or was deleted")

func appendPiece(ctx context.Context, q *dbsql.Queries, id string, p file.Piece) error {
	n, err := q.InsertFilePiece(ctx, dbsql.InsertFilePieceParams{FileID: id, Number: int32(p.Number), KeyID: p.Key, Sealed: p.Sealed})
	if err == nil && n == 0 {
		err = errNotOpen
	}
	return err
}

// Begin implements file.Store.
func (f *Files) Begin(ctx context.Context, r file.Row) error {
	err := pgdb.InTx(ctx, f.pool, func(tx pgx.Tx) error {
		q := dbsql.New(tx)
		n, err := q.ReplaceFile(ctx, dbsql.ReplaceFileParams{
			ID: r.ID, OrganizationID: r.Organization, OwnerID: r.Owner, Purpose: string(r.Purpose), KeyID: r.Key, SealedName: notNull(r.SealedName),
			CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
		})
		if err == nil && n == 0 {
			err = errNotOpen
		}
		if err != nil {
			return err
		}
		return q.DeleteFilePieces(ctx, r.ID)
	})
	if err != nil {
		return fmt.Errorf("begin file: %w", err)
	}
	return nil
}

// Append implements file.Store.
func (f *Files) Append(ctx context.Context, id string, p file.Piece) error {
	if err := appendPiece(ctx, dbsql.New(f.pool), id, p); err != nil {
		return fmt.Errorf("append to file: %w", err)
	}
	return nil
}

// Get implements file.Store.
func (f *Files) Get(ctx context.Context, s file.Scope, id string, now time.Time) (file.Row, bool, error) {
	found, err := dbsql.New(f.pool).GetFile(ctx, dbsql.GetFileParams{ID: id, OrganizationID: s.Organization, OwnerID: s.Owner, Now: now})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return file.Row{}, false, nil
	case err != nil:
		return file.Row{}, false, fmt.Errorf("get file: %w", err)
	}
	return fileRow(found), true, nil
}

func fileRow(f dbsql.GetFileRow) file.Row {
	return file.Row{
		Scope: file.Scope{Organization: f.OrganizationID, Owner: f.OwnerID}, ID: f.ID, Purpose: file.Purpose(f.Purpose),
		Key: f.KeyID, SealedName: f.SealedName, Size: f.Size, CreatedAt: f.CreatedAt, ExpiresAt: f.ExpiresAt,
	}
}

// List implements file.Store.
func (f *Files) List(ctx context.Context, s file.Scope, p file.Page, now time.Time) ([]file.Row, error) {
	params := dbsql.ListFilesParams{
		OrganizationID: s.Organization, OwnerID: s.Owner, Now: now, After: p.After, Ascending: p.Ascending, Count: int32(p.Limit),
	}
	for _, purpose := range p.Purposes {
		params.Purposes = append(params.Purposes, string(purpose))
	}
	found, err := dbsql.New(f.pool).ListFiles(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	rows := make([]file.Row, len(found))
	for i, row := range found {
		rows[i] = fileRow(dbsql.GetFileRow(row))
	}
	return rows, nil
}

// Pieces implements file.Store.
func (f *Files) Pieces(ctx context.Context, id string, from, limit int) ([]file.Piece, error) {
	found, err := dbsql.New(f.pool).FilePieces(ctx, dbsql.FilePiecesParams{FileID: id, FromNumber: int32(from), Count: int32(limit)})
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	pieces := make([]file.Piece, len(found))
	for i, p := range found {
		pieces[i] = file.Piece{Number: int(p.Number), Key: p.KeyID, Sealed: p.Sealed}
	}
	return pieces, nil
}

// Delete implements file.Store.
func (f *Files) Delete(ctx context.Context, s file.Scope, id string, now time.Time) (bool, error) {
	n, err := dbsql.New(f.pool).DeleteFile(ctx, dbsql.DeleteFileParams{ID: id, OrganizationID: s.Organization, OwnerID: s.Owner, Now: now})
	if err != nil {
		return false, fmt.Errorf("delete file: %w", err)
	}
	return n > 0, nil
}

// Drop implements file.Store.
func (f *Files) Drop(ctx context.Context, now time.Time, limit int) (int, error) {
	n, err := dbsql.New(f.pool).DropFiles(ctx, dbsql.DropFilesParams{Now: now, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("drop files: %w", err)
	}
	return int(n), nil
}

// Erase implements file.Store.
func (f *Files) Erase(ctx context.Context, organization string, until time.Time, limit int) (int, error) {
	n, err := dbsql.New(f.pool).EraseFiles(ctx, dbsql.EraseFilesParams{OrganizationID: organization, Before: until, Count: int32(limit)})
	if err != nil {
		return 0, fmt.Errorf("erase files: %w", err)
	}
	return int(n), nil
}
