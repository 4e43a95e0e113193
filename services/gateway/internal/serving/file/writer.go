package file

import "context"

// Writer writes a file whose content comes little by little. The file can't be read until what is done with it completes
// it: a job that is repeated writes it anew. Not safe for concurrent use.
type Writer struct {
	manager *Manager
	scope   Scope
	file    File
	piece   []byte
	next    int
}

// Begin begins a file, or begins it anew.
func (m *Manager) Begin(ctx context.Context, s Scope, f File) (*Writer, error) {
	f.Size = 0
	row, err := m.row(s, &f)
	if err != nil {
		return nil, err
	}
	if err := m.store.Begin(ctx, row); err != nil {
		return nil, err
	}
	return &Writer{manager: m, scope: s, file: f}, nil
}

// Write adds to the content.
func (w *Writer) Write(ctx context.Context, content []byte) error {
	w.file.Size += int64(len(content))
	for len(content) > 0 {
		n := min(len(content), pieceSize-len(w.piece))
		w.piece = append(w.piece, content[:n]...)
		content = content[n:]
		if len(w.piece) == pieceSize {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) flush(ctx context.Context) error {
	piece, err := w.manager.seal(w.scope, w.file.ID, w.next, w.piece)
	if err != nil {
		return err
	}
	if err := w.manager.store.Append(ctx, w.file.ID, piece); err != nil {
		return err
	}
	w.piece, w.next = w.piece[:0], w.next+1
	return nil
}

// Close stores the rest of the content, and returns the file as it is to be completed.
func (w *Writer) Close(ctx context.Context) (File, error) {
	if len(w.piece) > 0 {
		if err := w.flush(ctx); err != nil {
			return File{}, err
		}
	}
	return w.file, nil
}
