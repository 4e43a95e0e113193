// Package meter counts successful calls for billing, each exactly once: through kill -9, restarts, several replicas
// and an intermittent database.
//
// A call is counted before its response is complete, as a Batch with a sequence number of its writer (one per process
// start). The database accepts a batch only if that number is new, so a batch may be sent again when it is unknown whether
// it arrived. In ModeSynced each call is written to disk (platform/spool), where calls at the same time share a sync, and
// goes from there to the database with many others, in the same order. In ModeCommitted calls that end at about the same
// time are one batch, which goes to the database, or to disk while that is unavailable.
//
// Old counts are merged into hours and days (Upkeep). Package api calls Admit and Count and reads the Ledger; package
// app runs the loops.
package meter

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/spool"
)

// Counter identifies a count: the successes of a key on a metric in a minute, of a user and with tags.
type Counter struct {
	Organization string    `json:"o"`
	Key          string    `json:"k"`
	Metric       string    `json:"m"`
	Minute       time.Time `json:"t"`
	// User and Tags are as the caller sent them, Tags as the text of the header, or Other for one that is too long to keep.
	// Both are empty in files of earlier releases.
	User string `json:"u,omitempty"`
	Tags string `json:"g,omitempty"`
}

// Count is the increment of a counter.
type Count struct {
	Counter
	Count int64 `json:"n"`
}

// Batch is what a writer adds at once: its batches from First to Last. Their numbers grow from batch to batch.
type Batch struct {
	Writer string  `json:"w"`
	First  int64   `json:"f,omitzero"` // zero in files of earlier releases, for Last
	Last   int64   `json:"s"`
	Counts []Count `json:"c"`
}

// Store adds batches to the counters.
type Store interface {
	// Apply adds a batch and reports true. It does nothing and reports false if any part of it, or a later batch of the
	// same writer, was added before.
	Apply(ctx context.Context, batch Batch) (applied bool, err error)
	// Announce tells readers that batches will be applied whose calls may be answered already. Readers that start before
	// withdraw wait for it.
	Announce(ctx context.Context) (withdraw func(), err error)
}

// Mode is what a call's response waits for.
type Mode string

// The modes.
const (
	// ModeSynced: the response is complete when its count is synced to the spool's disk.
	ModeSynced Mode = "synced"
	// ModeCommitted: the response is complete when its count is in the database.
	ModeCommitted Mode = "committed"
)

const (
	// queue bounds the calls that wait for the writer; further ones block.
	queue = 1024
	// largest is the largest number of calls in one batch.
	largest = 1024
	// linger is how long a batch that goes to disk waits for more calls. Fewer batches let the database catch up with
	// a faster disk.
	linger = 20 * time.Millisecond
	// applyTime is how long the database may take before a batch goes to disk.
	applyTime = time.Second
	// behind is how long batches on disk wait for more of them, so that the database gets them together.
	behind = 50 * time.Millisecond
	// together is the largest number of batches that the database gets at once.
	together = 4096
)

// Meter counts. Safe for concurrent use.
type Meter struct {
	writer    string
	store     Store
	spool     *spool.Spool
	mode      Mode
	log       *slog.Logger
	successes *batch.Group[Counter, struct{}]
	behind    *batch.Behind

	// order makes the batches on disk have the order of their numbers.
	order sync.Mutex
	last  int64 // number of the last batch

	// away is set from when the database fails until it has taken the batches on disk. broken is set from when the disk
	// fails until it works again.
	away, broken atomic.Bool
}

// New returns a Meter whose loops, Write, Replay and Adopt, the caller has to run. The Meter closes the spool.
func New(store Store, spool *spool.Spool, mode Mode, log *slog.Logger) *Meter {
	m := &Meter{writer: rand.Text(), store: store, spool: spool, mode: mode, log: log}
	m.successes = batch.NewGroup(batch.Options{Size: queue, Most: largest, Linger: m.linger}, m.put)
	m.behind = m.newBehind()
	return m
}

// linger returns how long a batch waits for more calls: not at all while the database takes batches.
func (m *Meter) linger() time.Duration {
	if m.spool.Empty() {
		return 0
	}
	return linger
}

// Admit refuses new calls if their success could not be stored: the database is unavailable and the spool is full.
func (m *Meter) Admit() error {
	if m.spool.Full() {
		return apierr.Unavailable("usage can't be recorded right now", nil)
	}
	return nil
}

// Waiting returns the number of bytes of counts that are on disk and not in the database.
func (m *Meter) Waiting() int64 { return m.spool.Waiting() }

// Count records a success, at any moment of its minute. The returned function blocks until the count is durable; it
// returns an error if the count cannot be stored.
func (m *Meter) Count(counter Counter) (settled func() error) {
	counter.Minute = counter.Minute.UTC().Truncate(time.Minute)
	if m.mode == ModeSynced && !m.broken.Load() {
		err := m.append(counter)
		if err == nil {
			announced := m.behind.Wake()
			return func() error { return m.synced(announced) }
		}
		m.fail(err) // The count goes to the database.
	}
	pending, err := m.successes.Submit(context.Background(), counter)
	if err != nil {
		return func() error { return err }
	}
	return func() error {
		_, err := pending.Wait(context.Background())
		return err
	}
}

// synced returns when what was appended is on disk and readers know of it. Calls at the same time share the work.
func (m *Meter) synced(announced <-chan struct{}) error {
	if err := m.spool.Sync(); err != nil {
		m.fail(err)
		return err // The call may be counted, so it must not be counted again.
	}
	m.awaitAnnounced(announced)
	return nil
}

// fail records that the disk fails.
func (m *Meter) fail(err error) {
	if !m.broken.Swap(true) {
		m.log.ErrorContext(context.Background(), "the spool's disk fails; counts go to the database", "error", err.Error())
	}
}

// Write makes batches of the successes that wait for the database until ctx ends: whatever has come while the one before
// was written is the next. Successes that it leaves get batch.ErrStopped.
func (m *Meter) Write(ctx context.Context) error { return m.successes.Run(ctx, 1) }

// put counts successes, as one batch.
func (m *Meter) put(ctx context.Context, successes []Counter) ([]struct{}, error) {
	if err := m.putBatch(ctx, successes); err != nil {
		m.log.ErrorContext(ctx, "successes not counted, their callers were cut off",
			"count", len(successes), "error", err.Error())
		return nil, err
	}
	return make([]struct{}, len(successes)), nil
}

// putBatch brings a batch to the database, or to disk: behind others that wait there, when the database fails, and when
// it doesn't say in time whether it has the batch.
func (m *Meter) putBatch(ctx context.Context, successes []Counter) error {
	batch := Batch{Writer: m.writer, Counts: sum(successes)}
	switch {
	case m.mode == ModeSynced: // The disk fails. What is on it comes later, with numbers of its own.
		batch.Writer, batch.First, batch.Last = rand.Text(), 1, 1
		return m.apply(ctx, batch)
	case !m.spool.Empty():
		return m.keep(m.numbered(batch))
	}
	batch = m.numbered(batch)
	err := m.apply(ctx, batch)
	if err == nil {
		return nil
	}
	m.log.WarnContext(ctx, "database unavailable; counts go to disk", "error", err.Error())
	return m.keep(batch)
}

func (m *Meter) numbered(batch Batch) Batch {
	m.order.Lock()
	defer m.order.Unlock()
	m.last++
	batch.First, batch.Last = m.last, m.last
	return batch
}

// append writes a success to disk as the next batch, so that it survives the end of the process.
func (m *Meter) append(success Counter) error {
	m.order.Lock()
	defer m.order.Unlock()
	m.last++
	return m.write(Batch{Writer: m.writer, First: m.last, Last: m.last, Counts: []Count{{success, 1}}})
}

// keep writes a batch to disk so that it survives the end of the process and of the machine.
func (m *Meter) keep(batch Batch) error {
	if err := m.write(batch); err != nil {
		return err
	}
	return m.spool.Sync()
}

func (m *Meter) write(batch Batch) error {
	record, err := json.Marshal(batch)
	if err != nil {
		return fmt.Errorf("encode batch: %w", err)
	}
	_, err = m.spool.Append(record)
	return err
}

// apply adds a batch, of which no part may have been added before unless it is a single one.
func (m *Meter) apply(ctx context.Context, batch Batch) error {
	_, err := m.tryApply(ctx, batch)
	return err
}

func (m *Meter) tryApply(ctx context.Context, batch Batch) (applied bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	if applied, err = m.store.Apply(ctx, batch); err != nil {
		return false, fmt.Errorf("apply batch: %w", err)
	}
	return applied, nil
}

// sum adds up equal counters.
func sum(successes []Counter) []Count {
	totals := make(map[Counter]int64, 8)
	for _, counter := range successes {
		totals[counter]++
	}
	return sorted(totals)
}

// sorted returns totals in the order in which all replicas lock rows.
func sorted(totals map[Counter]int64) []Count {
	counts := make([]Count, 0, len(totals))
	for _, counter := range slices.SortedFunc(maps.Keys(totals), compare) {
		counts = append(counts, Count{Counter: counter, Count: totals[counter]})
	}
	return counts
}

func compare(a, b Counter) int {
	return cmp.Or(
		cmp.Compare(a.Organization, b.Organization), cmp.Compare(a.Key, b.Key),
		cmp.Compare(a.Metric, b.Metric), a.Minute.Compare(b.Minute), cmp.Compare(a.User, b.User), cmp.Compare(a.Tags, b.Tags),
	)
}
