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

// A release is a reload on every replica. The replica that an operator asks to reload checks its own files and releases
// their version; the others follow the topic policy and read their own files. If those files are updated later (such as
// a volume that a cluster syncs gradually), a replica checks them every second until they are the released version.

// releases notifies replicas to reload; see postgres.Releases.
type releases interface {
	Release(ctx context.Context, before, now policy.Version) error
	Released(ctx context.Context) (hash string, level int64, err error)
}

const (
	// checkInterval is how often files that differ from the released version are checked.
	checkInterval = time.Second
	// releaseTimeout bounds the wait for the store, which a SIGHUP would otherwise wait for too.
	releaseTimeout = 5 * time.Second
)

// Reasons why a replica has not followed a release.
const (
	policyRefused = "policy_refused" // its files are invalid
	policyDiffers = "policy_differs" // its files are of another version
)

// releaseState is what a replica knows of the last release and whether it has followed it.
type releaseState struct {
	following bool
	// released is the hash of the last release since this replica started; empty for none. An earlier release does not
	// apply to the files that the replica started with.
	released string
	trouble  atomic.Pointer[string]
}

// problem returns policyRefused, policyDiffers or empty.
func (s *releaseState) problem() string {
	if code := s.trouble.Load(); code != nil {
		return *code
	}
	return ""
}

// note compares the version in force with the released one. refused reports whether the files were invalid.
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

// inForce returns the version of the policy in force, and why the last release is not in force here; empty if it is.
func (f *fleets) inForce() (version, problem string) {
	return f.present.Load().version.Hash, f.release.problem()
}

// Reload puts the files in force on every replica. An invalid file changes nothing on any replica; the error says which
// file, where and why.
func (f *fleets) Reload(ctx context.Context) (policy.Reloaded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, err := f.build(ctx)
	if err != nil {
		return policy.Reloaded{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := f.releases.Release(bounded, f.present.Load().version, next.version); err != nil {
		return policy.Reloaded{}, err
	}
	f.release.released = next.version.Hash
	done := f.put(ctx, next)
	f.release.note(next.version.Hash, false)
	return done, nil
}

// follow reads the files after a release, and at the start, in case a release came between the first reading and this
// one.
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

// reread puts the files in force unless they are already. The caller holds the lock.
func (f *fleets) reread(ctx context.Context) {
	if files, err := readFiles(f.cfg); err == nil && files.hash() == f.present.Load().version.Hash {
		f.release.note(files.hash(), false)
		return
	}
	f.reload(ctx)
}

// reload puts this replica's files in force. The caller holds the lock.
func (f *fleets) reload(ctx context.Context) {
	next, err := f.build(ctx)
	if err == nil {
		f.put(ctx, next)
	}
	f.release.note(f.present.Load().version.Hash, err != nil)
}

// catchUp rereads the files once they are the released version.
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

// hangUps returns the channel of SIGHUP signals. It must be called before the service is ready: until then a SIGHUP ends
// the process.
func hangUps() chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c
}

// watch calls catchUp every checkInterval, and reloads the files of this replica alone on SIGHUP.
func (f *fleets) watch(ctx context.Context, hangups chan os.Signal) error {
	defer signal.Stop(hangups)
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.catchUp(ctx)
		case <-hangups:
			f.mu.Lock()
			f.reload(ctx)
			f.mu.Unlock()
		}
	}
}
