// Package listing lists the tools of registered servers, and stores what changed: when a server is registered, when it is
// in use, when it says that its tools have changed, and when a caller asks. One replica at a time lists a server, by a
// lease in Postgres. Package upstream is the Lister, package toolcall reports uses, and package api asks for listings.
package listing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// workers is how many servers a replica lists at once; share is how many of them may be one organization's.
	// Listings that a caller asks for are not counted.
	workers, share = 16, 4
	// turnEvery is how often a replica looks for listings that are due, useEvery how often it reports uses.
	turnEvery, useEvery = time.Second, 10 * time.Second
	// listTime bounds a listing, hold is how long a replica has it for itself.
	listTime, hold = 30 * time.Second, 45 * time.Second
	// refreshAfter is the age of a listing after which a server in use is listed again, more or less refreshJitter;
	// hurryAfter is the age before which it isn't, whatever the server announces.
	refreshAfter, refreshJitter = time.Minute, 6 * time.Second
	hurryAfter                  = 5 * time.Second
	// After failures the wait doubles, within these bounds. After patience of them, only a use or a request lists again.
	failureLeast, failureMost = 5 * time.Second, 10 * time.Minute
	patience                  = 20
	// lastTime bounds reporting the last uses before the process ends.
	lastTime = 2 * time.Second
	// maxUsed bounds the servers whose use is to be reported.
	maxUsed = 100_000
)

// MaxErrorText is the length of what is kept of an error's text, in characters.
const MaxErrorText = 200

// Class is why a listing failed.
type Class string

// The classes.
const (
	ClassUnreachable  Class = "unreachable"
	ClassTimeout      Class = "timeout"
	ClassUnauthorized Class = "unauthorized"
	ClassRefused      Class = "refused" // by the gateway: target, credential or command
	ClassProtocol     Class = "protocol"
	ClassInvalid      Class = "invalid"
	ClassTooLarge     Class = "too_large"
)

// Error is a listing that failed.
type Error struct {
	Class Class
	// Text may be the server's: it is escaped and cut before it is stored.
	Text string
}

// Error implements error.
func (f *Error) Error() string { return string(f.Class) + ": " + f.Text }

// Lister asks a server for its tools. Errors are *Error, or of ctx. It bounds what it reads.
type Lister interface {
	List(ctx context.Context, server *toolserver.Server) (definition.Listing, error)
}

// Claim is a listing that a replica has for itself.
type Claim struct {
	Server toolserver.Server
	// Digest is that of the listing before; zero for none.
	Digest   definition.Digest
	Failures int
	Lease    int64
}

// Use is a server in use, whose listing is to be at most After old.
type Use struct {
	Key   toolserver.Key
	After time.Duration
}

// ErrLost is the error of a result that comes too late: another replica has the listing, or the server was changed.
var ErrLost = errors.New("another replica lists the server")

// Store stores listings.
type Store interface {
	// Claim gives the replica a listing that is due, except listings of the organizations in full; false if there is
	// none.
	Claim(ctx context.Context, hold time.Duration, full []string) (Claim, bool, error)
	// ClaimOf gives the replica the listing of a server; false while another one has it.
	ClaimOf(ctx context.Context, key toolserver.Key, hold time.Duration) (Claim, bool, error)
	// Settle stores a listing with what it changes (definition.Decide). The audit entry gets its details, and is stored if
	// anything changed. The error is ErrLost if the claim no longer holds.
	Settle(ctx context.Context, c *Claim, version string, listed []definition.Definition, entry *audit.Entry) (definition.Changes, error)
	// Fail stores a failure. The listing is due again after a time; 0 is never without a use.
	Fail(ctx context.Context, c *Claim, f Error, after time.Duration) error
	// Use makes the listings of servers in use due.
	Use(ctx context.Context, uses []Use) error
	// Hurry makes the listing of a server due, but not before its last one has an age.
	Hurry(ctx context.Context, key toolserver.Key, after time.Duration) error
}

// Options are what a Refresher works with.
type Options struct {
	Store     Store
	Lister    Lister
	Canonical definition.Canonical
	Log       *slog.Logger
}

// Refresher lists servers. Safe for concurrent use.
type Refresher struct {
	Options

	wake chan struct{}

	// listings waits for the running listings that begin started.
	listings sync.WaitGroup

	mu   sync.Mutex
	used map[toolserver.Key]struct{}
	// working counts the running listings of begin by organization.
	working map[string]int
}

// New returns a Refresher.
func New(o Options) *Refresher {
	return &Refresher{Options: o, wake: make(chan struct{}, 1), used: make(map[toolserver.Key]struct{}), working: make(map[string]int)}
}

// Wake makes the replica look for listings that are due now.
func (r *Refresher) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Used notes that a server is in use, so that its listing is kept up to date. It does no I/O.
func (r *Refresher) Used(key toolserver.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.used) < maxUsed {
		r.used[key] = struct{}{}
	}
}

// Changed makes a server be listed soon: it says that its tools have changed, or a call failed as if they had.
func (r *Refresher) Changed(ctx context.Context, key toolserver.Key) error {
	if err := r.Store.Hurry(ctx, key, hurryAfter); err != nil {
		return fmt.Errorf("hurry listing: %w", err)
	}
	r.Wake()
	return nil
}

// errBusy is the error of a request for a listing that another replica makes.
var errBusy = &apierr.Error{
	Kind: apierr.KindConflict, Reason: apierr.ReasonConflict, Class: apierr.ClassTransient, RetryAfter: time.Second,
	Text: "the tools of the server are being listed; read the server again in some seconds",
}

// Refresh lists a server now. A listing that fails is stored, and no error.
func (r *Refresher) Refresh(ctx context.Context, key toolserver.Key) error {
	claim, ok, err := r.Store.ClaimOf(ctx, key, hold)
	switch {
	case err != nil:
		return fmt.Errorf("refresh tool server: %w", err)
	case !ok:
		return errBusy
	}
	err = r.list(ctx, &claim)
	if errors.Is(err, ErrLost) {
		return errBusy
	}
	return err
}

// Run lists servers until ctx ends. It is a part of the service's lifecycle.
func (r *Refresher) Run(ctx context.Context) error {
	var group errgroup.Group
	turns := lifecycle.Repeat{Every: turnEvery, Wake: r.wake, Log: r.Log, Name: "tool listings", Do: r.turn}
	group.Go(func() error { return turns.Run(ctx) })
	uses := lifecycle.Repeat{Every: useEvery, Log: r.Log, Name: "uses of tool servers", Do: r.reportUses}
	group.Go(func() error { return uses.Run(ctx) })
	err := group.Wait()
	r.listings.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	return errors.Join(err, r.reportUses(last))
}

// turn starts listings until none is due or all workers are busy. When a listing ends, it triggers the next turn.
func (r *Refresher) turn(ctx context.Context) error {
	for ctx.Err() == nil {
		free, full := r.occupied()
		if !free {
			return nil
		}
		claim, ok, err := r.Store.Claim(ctx, hold, full)
		if err != nil || !ok {
			return err
		}
		r.begin(ctx, &claim)
	}
	return nil
}

// occupied reports whether a worker is free, and returns the organizations that already use their share of the workers.
func (r *Refresher) occupied() (free bool, full []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := 0
	for organization, n := range r.working {
		if total += n; n >= share {
			full = append(full, organization)
		}
	}
	return total < workers, full
}

// begin runs a claimed listing in the background.
func (r *Refresher) begin(ctx context.Context, c *Claim) {
	r.occupy(c.Server.Organization, 1)
	r.listings.Go(func() {
		defer r.Wake()
		defer r.occupy(c.Server.Organization, -1)
		err := lifecycle.Protect(ctx, "tool listing", func() error { return r.list(ctx, c) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrLost) {
			r.Log.ErrorContext(ctx, "a tool listing can't be stored", slog.String("organization", c.Server.Organization),
				slog.String("server_id", c.Server.ID), slog.String("error", err.Error()))
		}
	})
}

func (r *Refresher) occupy(organization string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working[organization] += n; r.working[organization] == 0 {
		delete(r.working, organization)
	}
}

// list makes a claimed listing.
func (r *Refresher) list(ctx context.Context, c *Claim) error {
	bounded, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	var listing definition.Listing
	err := lifecycle.Protect(bounded, "tool listing", func() (err error) {
		listing, err = r.Lister.List(bounded, &c.Server)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err() // The caller has gone, or the process ends: not the server's failure. Its hold ends by itself.
	}
	var listed []definition.Definition
	if err == nil {
		listed, err = definition.Read(r.Canonical, c.Server.Key(), &listing)
	}
	if err != nil {
		return r.fail(ctx, c, failureOf(err, bounded.Err() != nil))
	}
	entry := audit.New(ctx, "tool_server.list", audit.Subject{Type: "tool_server", ID: c.Server.ID, Organization: c.Server.Organization}, "")
	changes, err := r.Store.Settle(ctx, c, definition.Visible(listing.ProtocolVersion, maxVersion), listed, &entry)
	if err != nil {
		return fmt.Errorf("store listing: %w", err)
	}
	if len(changes.Changed) > 0 {
		r.Log.WarnContext(ctx, "a tool server has changed definitions, which wait for a review", slog.String("organization", c.Server.Organization),
			slog.String("server_id", c.Server.ID), slog.Int("tools", len(changes.Changed)))
	}
	return nil
}

// maxVersion is the length of a version of the protocol, in characters.
const maxVersion = 32

func (r *Refresher) fail(ctx context.Context, c *Claim, f Error) error {
	f.Text = definition.Visible(f.Text, MaxErrorText)
	if c.Failures == 0 {
		r.Log.WarnContext(ctx, "the tools of a server can't be listed", slog.String("organization", c.Server.Organization),
			slog.String("server_id", c.Server.ID), slog.String("class", string(f.Class)))
	}
	if err := r.Store.Fail(ctx, c, f, failureAfter(c.Failures+1, jitter())); err != nil {
		return fmt.Errorf("store failed listing: %w", err)
	}
	return nil
}

// failureOf returns why a listing failed.
func failureOf(err error, late bool) Error {
	f, ok := errors.AsType[*Error](err)
	switch {
	case ok:
		return *f
	case late:
		return Error{ClassTimeout, "the tools were not listed in time"}
	case errors.Is(err, definition.ErrTooLarge):
		return Error{ClassTooLarge, err.Error()}
	case errors.Is(err, definition.ErrInvalid):
		return Error{ClassInvalid, err.Error()}
	}
	return Error{ClassUnreachable, "the server can't be asked"} // The text of an unknown error isn't for callers.
}

// failureAfter returns how long to wait after so many failures in a row; 0 for ever. random is from 0 to 1.
func failureAfter(failures int, random float64) time.Duration {
	if failures > patience {
		return 0
	}
	wait := min(failureLeast<<min(failures-1, 10), failureMost)
	return wait - time.Duration(random*float64(wait)/4)
}

// reportUses stores which servers are in use. Uses that can't be stored are reported again.
func (r *Refresher) reportUses(ctx context.Context) error {
	r.mu.Lock()
	used := r.used
	r.used = make(map[toolserver.Key]struct{})
	r.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	uses := make([]Use, 0, len(used))
	for key := range used {
		uses = append(uses, Use{key, refreshAfter + time.Duration((2*jitter()-1)*float64(refreshJitter))})
	}
	if err := r.Store.Use(ctx, uses); err != nil {
		for key := range used {
			r.Used(key)
		}
		return fmt.Errorf("store uses: %w", err)
	}
	return nil
}

// jitter returns a random number from 0 to 1.
var jitter = rand.Float64
