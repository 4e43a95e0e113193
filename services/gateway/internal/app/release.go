package app

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
)

// A release is a reload of every replica. The one that an operator asks checks its
// files and releases them; the others follow the topic policy and read their own.
// Where those come later (a volume that a cluster brings up to date by and by), a
// replica looks each second until they are the ones that were released.

// releases tell replicas to reload; see postgres.Releases.
type releases interface {
	Release(ctx context.Context, before, now policy.Version) error
	Released(ctx context.Context) (hash string, level int64, err error)
}

const (
	// lookEvery is how often files are looked at that are not yet those released.
	lookEvery = time.Second
	// releaseTime bounds the wait for the store, which a hangup would wait for too.
	releaseTime = 5 * time.Second
)

// What keeps a replica from what was released.
const (
	policyRefused = "policy_refused" // its files are bad
	policyDiffers = "policy_differs" // its files are others
)

// releaseState is what a replica knows of the last release, and whether it has followed it.
type releaseState struct {
	following bool
	// released since this replica started; empty for none: what was released before
	// says nothing of the files that it started with.
	released string
	trouble  atomic.Pointer[string]
}

// problem is policyRefused, policyDiffers or empty.
func (s *releaseState) problem() string {
	if code := s.trouble.Load(); code != nil {
		return *code
	}
	return ""
}

// note compares what is in force with what was released. refused tells that the
// files could not be read.
func (s *releaseState) note(inForce string, refused bool) {
	code := policyDiffers
	switch {
	case s.released == "", s.released == inForce:
		code = ""
	case refused:
		code = policyRefused
	}
	s.trouble.Store(&code)
}

// inForce is the version of the policy, and what keeps the last release from being it.
func (f *fleets) inForce() (version, problem string) {
	return f.present.Load().version.Hash, f.release.problem()
}

// Reload puts in force what the files say, on every replica. A bad file changes
// nothing anywhere; the error says which one, where and why.
func (f *fleets) Reload(ctx context.Context) (policy.Reloaded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, err := f.made(ctx)
	if err != nil {
		return policy.Reloaded{}, err
	}
	told, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	if err := f.releases.Release(told, f.present.Load().version, next.version); err != nil {
		return policy.Reloaded{}, err
	}
	f.release.released = next.version.Hash
	done := f.put(ctx, next)
	f.release.note(next.version.Hash, false)
	return done, nil
}

// follow reads the files after a release, and at the start, in case that one came
// between the first reading and this.
func (f *fleets) follow(ctx context.Context, _ int64) (level int64, err error) {
	hash, level, err := f.releases.Released(ctx)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.release.following {
		f.release.released = hash
	}
	f.release.following = true
	f.reread(ctx)
	return level, nil
}

// reread puts in force what the files say, unless that is so already. The caller
// holds the lock.
func (f *fleets) reread(ctx context.Context) {
	if files, err := readFiles(f.cfg); err == nil && files.hash() == f.present.Load().version.Hash {
		f.release.note(files.hash(), false)
		return
	}
	f.reload(ctx)
}

// reload puts in force what the files of this replica say. The caller holds the lock.
func (f *fleets) reload(ctx context.Context) {
	next, err := f.made(ctx)
	if err == nil {
		f.put(ctx, next)
	}
	f.release.note(f.present.Load().version.Hash, err != nil)
}

// catchUp rereads files that have become those released.
func (f *fleets) catchUp(ctx context.Context) {
	if f.release.problem() == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if files, err := readFiles(f.cfg); err == nil && files.hash() == f.release.released {
		f.reread(ctx)
	}
}

// watch catches up, and reads the files of this replica alone whenever the process
// gets SIGHUP.
func (f *fleets) watch(ctx context.Context) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			f.catchUp(ctx)
		case <-hangups:
			f.mu.Lock()
			f.reload(ctx)
			f.mu.Unlock()
		}
	}
}
