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
	// freshFor bounds how long a replaced secret goes on signing.
	freshFor = 5 * time.Second
	// missingFor is shorter: a delivery waits for the file.
	missingFor = time.Second
	// maxCached bounds the cache.
	maxCached = 10_000
)

// Directory finds the secrets of organizations in files: one per organization,
// each line a secret, the current one first; or one default file for all that
// have none. The files are read again every few seconds, so a rotation is one
// write. Safe for concurrent use.
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

// NewDirectory reads from dir and fallback; either may be empty.
func NewDirectory(dir string, fallback secret.File, log *slog.Logger, now func() time.Time) *Directory {
	return &Directory{dir: dir, fallback: fallback, log: log, now: now, cached: make(map[string]entry)}
}

// Of gives the secrets of an organization, current first; none when it has none
// that can be read.
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
		// A name that is too long for a file is that of no file.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
			// A broken file is no reason to sign with another secret.
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

// FileName is the name of an organization's file: its id, percent-encoded so
// that it stays one name in the directory. A leading dot is encoded too.
func FileName(organization string) string {
	name := url.PathEscape(organization)
	if rest, ok := strings.CutPrefix(name, "."); ok {
		name = "%2E" + rest
	}
	return name
}
