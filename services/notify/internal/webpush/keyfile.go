package webpush

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/secret"
)

// KeyFile holds the VAPID keys of a file with one private key per line, the current one first. It is safe for
// concurrent use.
type KeyFile struct {
	file   secret.File
	keys   atomic.Pointer[Keys]
	loaded string // stamp of the file before it was first read
}

// OpenKeyFile reads the keys of a file.
func OpenKeyFile(file secret.File) (*KeyFile, error) {
	k := &KeyFile{file: file}
	k.loaded = k.stamp()
	return k, k.reload()
}

// Keys returns the keys as they were last read.
func (k *KeyFile) Keys() Keys { return *k.keys.Load() }

func (k *KeyFile) reload() error {
	lines, err := k.file.Lines()
	if err != nil {
		return fmt.Errorf("VAPID keys: %w", err)
	}
	keys, err := ParseKeys(lines)
	if err != nil {
		return fmt.Errorf("VAPID keys %s: %w", k.file, err)
	}
	k.keys.Store(&keys)
	return nil
}

// watchEvery is the interval at which Watch checks the file.
const watchEvery = 2 * time.Second

// Watch reads the file again whenever it changes, until ctx ends. If the file cannot be read, the keys stay as they
// are, and the error is logged once.
func (k *KeyFile) Watch(ctx context.Context, log *slog.Logger) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	seen := k.loaded
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := k.stamp()
		if now == seen {
			continue
		}
		seen = now
		if err := k.reload(); err != nil {
			log.ErrorContext(ctx, "VAPID keys could not be reloaded", slog.String("error", err.Error()))
			continue
		}
		log.InfoContext(ctx, "VAPID keys reloaded", slog.String("current", k.Keys().Current().ID()), slog.Int("keys", len(k.Keys())))
	}
}

// stamp changes with the file, also behind a symbolic link.
func (k *KeyFile) stamp() string {
	info, err := os.Stat(string(k.file))
	if err != nil {
		return err.Error()
	}
	return info.ModTime().String() + strconv.FormatInt(info.Size(), 10)
}
