// Package store starts the two servers that the services store their state in: Postgres and Redis. Each is the server
// that the options name, else one from binaries on the machine, else one that needs nothing installed.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"switchyard.dev/deploy/dev/process"
)

// Options names the servers or says how to start them.
type Options struct {
	Dir   string // their state: postgres and redis below it
	Cache string // downloads, kept between runs

	// Durable makes every commit reach the disk, as a person's data needs. Without it
	// the servers are fast enough for tests, and a crash of the machine loses the data.
	Durable bool

	DatabaseURL string // a Postgres server to use instead of starting one
	RedisURL    string // a Redis server to use instead of starting one

	PostgresPort int // tried first, then those after it; 0 for any
	RedisPort    int // likewise

	Progress func(line string) // receives a line for each step; nil discards them
}

// Stores holds the running servers.
type Stores struct {
	DatabaseURL string // an administrator's: may create roles and schemas
	RedisURL    string

	members []Member
	close   []func() error
}

// Member is a server that was started as a process.
type Member struct {
	*process.Process

	Ready func(context.Context) error // nil once it answers
}

// Names of the members.
const (
	Postgres = "postgres"
	Redis    = "redis"
)

const startTimeout = 60 * time.Second

// Start starts what Options doesn't name. On an error nothing is left running.
func Start(ctx context.Context, o Options) (*Stores, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	s := &Stores{}
	for _, step := range []func(context.Context, Options) error{s.startPostgres, s.startRedis} {
		if err := step(ctx, o); err != nil {
			_ = s.Stop(context.WithoutCancel(ctx)) // kills at worst
			return nil, err
		}
	}
	return s, nil
}

// Members returns the servers that run as processes: neither those that ran before nor an in-process Redis.
func (s *Stores) Members() []Member { return s.members }

// Stop ends what Start started, in reverse order. It kills what hasn't ended when ctx ends.
func (s *Stores) Stop(ctx context.Context) error {
	var failed error
	for _, m := range slices.Backward(s.members) {
		failed = errors.Join(failed, m.Stop(ctx))
	}
	for _, end := range slices.Backward(s.close) {
		failed = errors.Join(failed, end())
	}
	s.members, s.close = nil, nil
	return failed
}

// start runs a server and waits until it answers.
func (s *Stores) start(ctx context.Context, spec process.Spec, ready func(context.Context) error) error {
	p, err := process.Start(spec)
	if err != nil {
		return err
	}
	s.members = append(s.members, Member{p, ready})
	return p.Await(ctx, startTimeout, ready)
}

// Temporary makes a folder for throwaway servers, which the caller removes. The user that Postgres runs as can enter
// it.
func Temporary() (string, error) {
	runs, err := postgresAccount("")
	if err != nil {
		return "", err
	}
	parent := os.TempDir()
	if runs != nil {
		if parent, err = firstOpen(*runs, append([]string{parent}, fallbacks...)); err != nil {
			return "", err
		}
	}
	dir, err := os.MkdirTemp(parent, "switchyard-")
	if err != nil {
		return "", fmt.Errorf("make a folder for throwaway servers: %w", err)
	}
	return dir, os.Chmod(dir, 0o711) //nolint:gosec // to be entered by the user of Postgres, not listed
}

// folder makes a folder that other users can enter, whatever the umask is.
func folder(elements ...string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(elements...))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what is private below it is 0700
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // likewise
}
