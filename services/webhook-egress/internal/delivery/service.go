package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/panics"
)

// Bounds of the enqueue path.
const (
	// flushRows is the largest number of concurrent enqueues that share a transaction.
	flushRows = 128
	// flushers is the number of concurrent flushes: one batch fills and is sent while another is committed. More
	// flushers would only make the batches smaller.
	flushers = 2
	// A draft waits up to flushLinger for others while batches have at least lingerFrom drafts: the transaction itself
	// costs as much as a dozen of its rows.
	flushLinger, lingerFrom = time.Millisecond, 6
	// flushTimeout bounds the transaction.
	flushTimeout = 10 * time.Second
)

// ErrRejected reports that the store cannot hold a draft as it is. For a batch, it concerns one draft or more.
var ErrRejected = errors.New("delivery: rejected by the store")

// ErrConflict reports that a transaction lost against another one and may be repeated.
var ErrConflict = errors.New("delivery: conflict in the store")

// tries is how often a transaction is tried that ends in a conflict.
const tries = 3

// Lease describes how a store leases a new delivery to the replica that accepted it.
type Lease struct {
	Replica  int64
	Duration time.Duration
	// Reserve reports whether this replica will send a delivery of the flow, with a body of that many bytes, at once.
	// It is called once per draft, within the transaction.
	Reserve func(flow Flow, bytes int) bool
}

// Stored is the result of storing a draft.
type Stored struct {
	// ID is that of the first delivery when the key was used before.
	ID           ID
	Status       Status
	Deduplicated bool
	// Mismatch reports that the first use of the key asked for something else.
	Mismatch bool
	Flow     Flow
	// LeaseSeq is positive when the delivery is leased to this replica.
	LeaseSeq int64
	// Position is that of the draft's ordering key; zero without one.
	Position int64
	// Err says why this draft alone is refused; the other fields are then unset.
	Err error
}

// New reports whether the draft was stored.
func (s *Stored) New() bool { return !s.Deduplicated && s.Err == nil }

// Store persists deliveries.
type Store interface {
	// Enqueue commits all drafts that are new, or none. If a draft's key was used for another request, Enqueue reports a
	// mismatch, but for an AllOrNone draft it fails with a RefusedError that wraps ErrKeyReused. Unless it fails, it stores
	// the counts of all drafts as well, including drafts that are not new.
	Enqueue(ctx context.Context, drafts []*Draft, lease Lease) ([]Stored, error)
	// Get reads a delivery of the organization and, unless owner is empty, of the owner. Otherwise it fails with an
	// apierr of kind not found.
	Get(ctx context.Context, organization, owner string, id ID, withBody bool) (Record, error)
	// List returns the matching deliveries with ids below before, newest first. A page may be shorter than limit;
	// next is zero on the last page.
	List(ctx context.Context, f Filter, before ID, limit int) (page []Record, next ID, err error)
	// Resend starts a new series of attempts. An error of kind conflict says why it did not. Unless it fails, it stores the
	// count as well.
	Resend(ctx context.Context, r Resend) (Resent, error)
	// Cancel ends a delivery that has not ended and reports whether it did.
	Cancel(ctx context.Context, id ID) (cancelled bool, err error)
	// Attempts returns attempts in order, from a position on; next is zero on the last page.
	Attempts(ctx context.Context, id ID, after int64, limit int) (page []Attempt, next int64, err error)
}

// Dispatcher sends accepted deliveries.
type Dispatcher interface {
	// Lease returns the lease for a batch of drafts.
	Lease() Lease
	// Send takes a leased job for which Reserve returned true. It does not block.
	Send(job Job)
	// Return releases the reservation of a job that was not stored.
	Return(flow Flow, bytes int)
	// Waiting reports that a delivery is waiting in the store.
	Waiting()
}

// Guard checks targets, as netguard.Guard does.
type Guard interface {
	CheckURL(raw string) (*url.URL, error)
	CheckHost(ctx context.Context, u *url.URL) error
}

// Sealer encrypts what must not be stored in plain text. The result is bound to owner.
type Sealer interface {
	Seal(text []byte, owner string) []byte
}

// Options configures a Service.
type Options struct {
	Store       Store
	Dispatcher  Dispatcher
	Targets     *Targets
	Intake      Intake
	SigningMode string
	Now         func() time.Time
}

// Service accepts and reads deliveries. Its Run must be running.
type Service struct {
	o       Options
	enqueue *batch.Group[*Draft, Stored]
	// flushed is the number of drafts in the latest batch.
	flushed atomic.Int32
}

// NewService returns a Service that accepts deliveries once Run runs.
func NewService(o Options) *Service {
	s := &Service{o: o}
	s.enqueue = batch.NewGroup(batch.Options{Size: flushRows, Most: flushRows, Linger: s.linger}, s.flush)
	return s
}

// linger returns how long a draft waits for others.
func (s *Service) linger() time.Duration {
	if s.flushed.Load() < lingerFrom {
		return 0
	}
	return flushLinger
}

// Run commits the deliveries that Enqueue accepts, until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.enqueue.Run(ctx, flushers) }

// Accepted is an accepted delivery.
type Accepted struct {
	Stored

	Organization string
	Key          string
}

// Enqueue checks a request and returns once the delivery is committed. Concurrent calls share a transaction. Errors
// are of package apierr.
func (s *Service) Enqueue(ctx context.Context, r Request) (Accepted, error) {
	draft, err := s.accept(ctx, r)
	if err != nil {
		return Accepted{}, err
	}
	return s.commit(ctx, draft)
}

func (s *Service) commit(ctx context.Context, draft *Draft) (Accepted, error) {
	stored, err := s.enqueue.Do(ctx, draft)
	switch {
	case errors.Is(err, batch.ErrStopped):
		return Accepted{}, apierr.Unavailable("the service is stopping", err)
	case err != nil:
		return Accepted{}, fmt.Errorf("enqueue: %w", err)
	case stored.Err != nil:
		return Accepted{}, fmt.Errorf("enqueue: %w", stored.Err)
	}
	return Accepted{Stored: stored, Organization: draft.Organization, Key: draft.Key}, nil
}

// flush stores a batch. A draft that the store rejects, or that makes it panic, fails alone.
func (s *Service) flush(ctx context.Context, drafts []*Draft) ([]Stored, error) {
	s.flushed.Store(int32(len(drafts)))
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	stored, err := s.store(ctx, drafts)
	if !errors.Is(err, ErrRejected) && !errors.Is(err, panics.Err) || len(drafts) == 1 {
		return stored, err
	}
	stored = make([]Stored, len(drafts))
	for i := range drafts {
		one, err := s.store(ctx, drafts[i:i+1])
		if err != nil {
			stored[i].Err = err
			continue
		}
		stored[i] = one[0]
	}
	return stored, nil
}

// store commits drafts, and repeats a transaction that ends in a conflict.
func (s *Service) store(ctx context.Context, drafts []*Draft) ([]Stored, error) {
	for try := 1; ; try++ {
		stored, err := s.storeOnce(ctx, drafts)
		if !errors.Is(err, ErrConflict) || try == tries {
			return stored, err
		}
	}
}

// storeOnce commits drafts, then hands the leased ones to the dispatcher. Unused reservations are returned.
func (s *Service) storeOnce(ctx context.Context, drafts []*Draft) ([]Stored, error) {
	lease := s.o.Dispatcher.Lease()
	var giveBack []func()
	reserve := lease.Reserve
	lease.Reserve = func(flow Flow, bytes int) bool {
		ok := reserve(flow, bytes)
		if ok {
			giveBack = append(giveBack, func() { s.o.Dispatcher.Return(flow, bytes) })
		}
		return ok
	}
	var stored []Stored
	err := lifecycle.Protect(ctx, "enqueue", func() (err error) {
		stored, err = s.o.Store.Enqueue(ctx, drafts, lease)
		return err
	})
	if err != nil {
		for _, back := range giveBack {
			back()
		}
		return nil, err
	}
	for i, one := range stored {
		switch {
		case !one.New():
		case one.LeaseSeq > 0:
			s.o.Dispatcher.Send(drafts[i].Job(one))
		default:
			s.o.Dispatcher.Waiting()
		}
	}
	return stored, nil
}

// Get reads a delivery. A delivery of another organization is not found, nor one of another owner when owner is set.
func (s *Service) Get(ctx context.Context, organization, owner, id string, withBody bool) (Record, error) {
	if err := CheckTexts(map[string]string{"organization_id": organization, "owner_id": owner}); err != nil {
		return Record{}, err
	}
	parsed, err := ParseID(id)
	if err != nil {
		return Record{}, apierr.NotFound("delivery").Wrap(err)
	}
	record, err := s.o.Store.Get(ctx, organization, owner, parsed, withBody)
	if err != nil {
		return Record{}, fmt.Errorf("get delivery: %w", err)
	}
	return record, nil
}

// Attempts returns the attempts of a delivery that is visible to the caller.
func (s *Service) Attempts(ctx context.Context, organization, owner, id string, after int64, limit int) ([]Attempt, int64, error) {
	record, err := s.Get(ctx, organization, owner, id, false)
	if err != nil {
		return nil, 0, err
	}
	page, next, err := s.o.Store.Attempts(ctx, record.ID, after, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list attempts: %w", err)
	}
	return page, next, nil
}
