package signing

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/services/platform/secret"
)

const (
	// freshFor bounds how long a replaced secret may still sign.
	freshFor = 5 * time.Second
	// missingFor is shorter, because a delivery waits for the file.
	missingFor = time.Second
	// maxCached bounds the number of cached organizations.
	maxCached = 10_000
)

// Directory finds the secrets of organizations in files: one file per organization with a secret per line, the
// current one first, and a default file for organizations without one. The files are read again every few seconds, so
// that a rotation is a single write. It is safe for concurrent use.
type Directory struct {
	dir      string
	fallback secret.File
	log      *slog.Logger
	now      func() time.Time

	mu     sync.Mutex
	cached map[string]entry
}

type entry struct {
	secrets []secret.Value
	until   time.Time
}

// NewDirectory returns a Directory that reads from dir and fallback; either may be empty.
func NewDirectory(dir string, fallback secret.File, log *slog.Logger, now func() time.Time) *Directory {
	return &Directory{dir: dir, fallback: fallback, log: log, now: now, cached: make(map[string]entry)}
}

// Of returns the secrets of an organization, the current one first; none if none can be read.
func (d *Directory) Of(ctx context.Context, organization string) []secret.Value {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok := d.cached[organization]; ok && now.Before(found.until) {
		return found.secrets
	}
	found := entry{secrets: d.read(ctx, organization)}
	found.until = now.Add(freshFor)
	if len(found.secrets) == 0 {
		found.until = now.Add(missingFor)
	}
	if len(d.cached) >= maxCached {
		clear(d.cached)
	}
	d.cached[organization] = found
	return found.secrets
}

func (d *Directory) read(ctx context.Context, organization string) []secret.Value {
	if d.dir != "" && organization != "" {
		secrets, err := secret.File(filepath.Join(d.dir, FileName(organization))).Lines()
		if err == nil {
			return secrets
		}
		// An id that is too long for a file name has no file.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
			// An unreadable file must not lead to signing with another secret.
			d.log.WarnContext(ctx, "the organization's signing secret cannot be read",
				slog.String("organization", organization), slog.String("error", err.Error()))
			return nil
		}
	}
	if d.fallback == "" {
		return nil
	}
	secrets, err := d.fallback.Lines()
	if err != nil {
		d.log.WarnContext(ctx, "the default signing secret cannot be read", slog.String("error", err.Error()))
		return nil
	}
	return secrets
}

// FileName returns the name of an organization's file: its id, percent-encoded so that it is a single path element. A
// leading dot is encoded too.
func FileName(organization string) string {
	name := url.PathEscape(organization)
	if rest, ok := strings.CutPrefix(name, "."); ok {
		name = "%2E" + rest
	}
	return name
}
