package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"

	"switchyard.dev/deploy/dev/port"
)

const fetchTimeout = 5 * time.Minute

// fetchedMajor is the release that fetch downloads.
const fetchedMajor = 17

// repositoryEnv names a Maven repository to download from, where the public one can't be reached.
const repositoryEnv = "SWITCHYARD_POSTGRES_REPOSITORY"

// fetch downloads Postgres into dir. The archive stays in cache.
func fetch(ctx context.Context, dir, cache string) (binaries, error) {
	scratch, err := os.MkdirTemp("", "switchyard-fetch-")
	if err != nil {
		return binaries{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	ports, err := port.Free(ctx, 1)
	if err != nil {
		return binaries{}, err
	}
	config := embedded.DefaultConfig().
		Version(embedded.V17).
		Port(uint32(ports[0])).
		CachePath(cache).
		BinariesPath(dir).
		RuntimePath(filepath.Join(scratch, "runtime")).
		DataPath(filepath.Join(scratch, "data")).
		Logger(io.Discard)
	if repository := os.Getenv(repositoryEnv); repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}

	// The library fetches only as the first step of a start of its own. Only the
	// binaries matter: whether that start goes on to work (as root it can't)
	// is no concern. It can't be cancelled either, hence the goroutine.
	done := make(chan error, 1)
	go func() {
		server := embedded.NewDatabase(config)
		started := server.Start()
		if started == nil {
			started = server.Stop()
		}
		done <- started
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return binaries{}, ctx.Err()
	case <-time.After(fetchTimeout):
		err = fmt.Errorf("no answer within %s", fetchTimeout)
	}
	b, missing := inspect(ctx, filepath.Join(dir, "bin"))
	if missing != nil {
		return binaries{}, errors.Join(err, missing)
	}
	return b, nil
}

// oneLine returns an error of several lines as one line, with each line once.
func oneLine(err error) string {
	var said []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}
