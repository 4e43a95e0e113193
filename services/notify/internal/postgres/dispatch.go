package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/postgres/dbsql"
)

// Queue holds the recipients that have not ended. It implements dispatch.Store.
type Queue struct{ pool *pgxpool.Pool }

var _ dispatch.Store = (*Queue)(nil)

// NewQueue returns the queue of a database.
func NewQueue(pool *pgxpool.Pool) *Queue { return &Queue{pool: pool} }

// Take implements dispatch.Store.
func (q *Queue) Take(ctx context.Context, c dispatch.Claim) ([]dispatch.Leased, error) {
	rows, err := dbsql.New(q.pool).TakeRecipients(ctx, dbsql.TakeRecipientsParams{
		Channel: string(c.Channel), Count: int32(c.Count), Lease: c.Lease, PassOver: append([]string{}, c.PassOver...),
	})
	if err != nil {
		return nil, failure("take recipients", err)
	}
	taken := make([]dispatch.Leased, len(rows))
	for i, r := range rows {
		taken[i] = dispatch.Leased{
			ID: r.ID, Fence: r.Fence, Notification: r.NotificationID, Organization: r.OrganizationID, Subscription: r.SubID,
			Sealed: r.Work, Destination: r.Destination, Lane: orEmpty(r.Lane),
			Granted: r.Granted, Late: time.Duration(r.Late * float64(time.Second)),
			Attempts: int(r.Attempts), Doubtful: r.Doubtful, Lost: r.Lost, DeliveryID: orEmpty(r.DeliveryID),
			AcceptedAt: r.CreatedAt, Deadline: *r.DeadlineAt,
			Updates: r.UpdatesID, Reference: orEmpty(r.Reference), Held: r.Held, Superseded: r.Superseded,
		}
	}
	return taken, nil
}

// NextDue implements dispatch.Store.
func (q *Queue) NextDue(ctx context.Context, name channel.Name) (time.Duration, error) {
	seconds, err := dbsql.New(q.pool).NextDue(ctx, string(name))
	return time.Duration(seconds * float64(time.Second)), failure("next due", err)
}

// Settle implements dispatch.Store. It stores recipients, their attempts and the sums of their channels in one
// transaction.
func (q *Queue) Settle(ctx context.Context, name channel.Name, results []dispatch.Result) (held []bool, err error) {
	ids := notifications(results)
	var ours []dispatch.Result
	err = change(ctx, q.pool, "settle", func(db *dbsql.Queries) error {
		if err := db.LockNotifications(ctx, ids); err != nil {
			return fmt.Errorf("lock sends: %w", err)
		}
		written, err := db.SettleRecipients(ctx, settleParams(results))
		if err != nil {
			return fmt.Errorf("settle recipients: %w", err)
		}
		held, ours = make([]bool, len(results)), nil
		for i, r := range results {
			if held[i] = slices.Contains(written, r.Leased.ID); held[i] {
				ours = append(ours, r)
			}
		}
		if len(ours) == 0 {
			return nil
		}
		if err := followUp(ctx, db, ours); err != nil {
			return err
		}
		return writeLog(ctx, db, name, ours)
	})
	if isRejected(err) {
		err = fmt.Errorf("%w: %w", dispatch.ErrRejected, err)
	}
	if err == nil {
		markSuperseded(results, ours)
	}
	return held, err
}

// markSuperseded marks the results of which settled says that a newer message was found.
func markSuperseded(results, settled []dispatch.Result) {
	next := 0
	for i := range results {
		if next == len(settled) {
			return
		}
		if results[i].Leased.ID == settled[next].Leased.ID {
			results[i].Step, results[i].Superseded = settled[next].Step, settled[next].Superseded
			next++
		}
	}
}

// isRejected reports whether the database rejects the values: SQLSTATE classes 22 (data exception) and 23 (constraint
// violation).
func isRejected(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(e.Code, "22") || strings.HasPrefix(e.Code, "23"))
}

// writeLog adds the attempts to the log and the results to the channels' sums, and ends the channels that are
// finished.
func writeLog(ctx context.Context, db *dbsql.Queries, name channel.Name, results []dispatch.Result) error {
	attempts := attemptParams(name, results)
	if len(attempts.Numbers) > 0 {
		if err := db.InsertAttempts(ctx, attempts); err != nil {
			return fmt.Errorf("insert attempts: %w", err)
		}
	}
	if err := db.CountResults(ctx, sums(name, results)); err != nil {
		return fmt.Errorf("count results: %w", err)
	}
	if reached := reachedDevices(results); len(reached) > 0 {
		if err := db.TouchDevices(ctx, reached); err != nil {
			return fmt.Errorf("touch devices: %w", err)
		}
	}
	ids := notifications(results)
	if err := endChannels(ctx, db, ids); err != nil {
		return err
	}
	if kept := referenceParams(name, results); len(kept.Refs) > 0 {
		if err := db.KeepReferences(ctx, kept); err != nil {
			return fmt.Errorf("keep references: %w", err)
		}
	}
	if err := db.TouchNotifications(ctx, ids); err != nil {
		return fmt.Errorf("touch sends: %w", err)
	}
	return nil
}

// followUp ends the settled recipients that newer updates supersede, which it marks in results, and makes due what waited
// for those that have ended.
func followUp(ctx context.Context, db *dbsql.Queries, results []dispatch.Result) error {
	var open, ended []int64
	for _, r := range results {
		if r.Step.Ended {
			ended = append(ended, r.Leased.ID)
		} else {
			open = append(open, r.Leased.ID)
		}
	}
	if len(open) > 0 {
		superseded, err := db.SupersedeSettled(ctx, open)
		if err != nil {
			return fmt.Errorf("supersede recipients: %w", err)
		}
		for i := range results {
			if slices.Contains(superseded, results[i].Leased.ID) {
				results[i].Step, results[i].Superseded = channel.Step{Ended: true}, true
			}
		}
		ended = append(ended, superseded...)
	}
	if len(ended) == 0 {
		return nil
	}
	if err := db.ReleaseRecipients(ctx, ended); err != nil {
		return fmt.Errorf("release recipients: %w", err)
	}
	return nil
}

// referenceParams returns where updates were put whose first message never arrived.
func referenceParams(name channel.Name, results []dispatch.Result) dbsql.KeepReferencesParams {
	p := dbsql.KeepReferencesParams{Channel: string(name)}
	for _, r := range results {
		for _, t := range r.Tries {
			if r.Leased.Updates != nil && t.Outcome.Reference != "" {
				p.UpdatesIds, p.Refs = append(p.UpdatesIds, *r.Leased.Updates), append(p.Refs, t.Outcome.Reference)
			}
		}
	}
	return p
}

// reachedDevices returns the registered devices whose push service accepted a message.
func reachedDevices(results []dispatch.Result) []uuid.UUID {
	var ids []uuid.UUID
	for _, r := range results {
		if r.Step.Delivered && r.Leased.Subscription != nil {
			ids = append(ids, *r.Leased.Subscription)
		}
	}
	return ids
}

// notifications returns the sends that results belong to, each once, sorted.
func notifications(results []dispatch.Result) []uuid.UUID {
	ids := make([]uuid.UUID, len(results))
	for i, r := range results {
		ids[i] = r.Leased.Notification
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

func settleParams(results []dispatch.Result) dbsql.SettleRecipientsParams {
	var p dbsql.SettleRecipientsParams
	for _, r := range results {
		p.Ids, p.Fences = append(p.Ids, r.Leased.ID), append(p.Fences, r.Leased.Fence)
		p.Statuses = append(p.Statuses, status(r))
		p.Endeds, p.Delays = append(p.Endeds, r.Step.Ended), append(p.Delays, r.Step.Delay)
		p.Granteds = append(p.Granteds, r.Granted)
		p.AttemptCounts, p.Doubtfuls = append(p.AttemptCounts, int32(r.Attempts)), append(p.Doubtfuls, r.Doubtful)
		p.DeliveryIds = append(p.DeliveryIds, r.DeliveryID)
	}
	return p
}

// status returns the status of a recipient after a result.
func status(r dispatch.Result) string {
	switch {
	case r.Step.Delivered:
		return "delivered"
	case r.Step.Ended:
		return "failed"
	case r.Attempts > 0:
		return "retrying"
	}
	return "queued"
}

func attemptParams(name channel.Name, results []dispatch.Result) dbsql.InsertAttemptsParams {
	p := dbsql.InsertAttemptsParams{Channel: string(name)}
	for _, r := range results {
		var subscription uuid.UUID
		if r.Leased.Subscription != nil {
			subscription = *r.Leased.Subscription
		}
		for _, t := range r.Tries {
			p.NotificationIds, p.SubIds = append(p.NotificationIds, r.Leased.Notification), append(p.SubIds, subscription)
			p.Numbers, p.Outcomes = append(p.Numbers, int32(t.Number)), append(p.Outcomes, string(t.Outcome.Kind))
			p.Codes, p.Errors = append(p.Codes, int32(t.Outcome.Status)), append(p.Errors, string(t.Outcome.Class))
			p.Details = append(p.Details, t.Outcome.Detail)
			p.RetryAfters = append(p.RetryAfters, t.Outcome.After.Seconds())
			p.StartedAts = append(p.StartedAts, t.StartedAt)
			p.Durations = append(p.Durations, float64(t.Took.Microseconds())/1000)
		}
	}
	return p
}

// sum is what results add to one channel.
type sum struct {
	attempts, delivered, failed, removed, superseded int32
	outcome, class, delivery, reference              string
	truncated, duplicate, replaced                   bool
}

func sums(name channel.Name, results []dispatch.Result) dbsql.CountResultsParams {
	of := make(map[uuid.UUID]*sum, len(results))
	for _, r := range results {
		s := of[r.Leased.Notification]
		if s == nil {
			s = &sum{}
			of[r.Leased.Notification] = s
		}
		s.add(r)
	}
	p := dbsql.CountResultsParams{Channel: string(name)}
	for _, id := range notifications(results) {
		s := of[id]
		p.NotificationIds, p.AttemptCounts = append(p.NotificationIds, id), append(p.AttemptCounts, s.attempts)
		p.Outcomes, p.Errors = append(p.Outcomes, s.outcome), append(p.Errors, s.class)
		p.Delivereds, p.Faileds = append(p.Delivereds, s.delivered), append(p.Faileds, s.failed)
		p.Removeds, p.Truncateds = append(p.Removeds, s.removed), append(p.Truncateds, s.truncated)
		p.Duplicateds, p.DeliveryIds = append(p.Duplicateds, s.duplicate), append(p.DeliveryIds, s.delivery)
		p.Supersededs, p.Refs = append(p.Supersededs, s.superseded), append(p.Refs, s.reference)
		p.Replaceds = append(p.Replaceds, s.replaced)
	}
	return p
}

func (s *sum) add(r dispatch.Result) {
	s.attempts += int32(len(r.Tries))
	for _, t := range r.Tries {
		s.outcome = string(t.Outcome.Kind)
		if t.Outcome.Class != channel.ClassNone {
			s.class = string(t.Outcome.Class)
		}
		s.truncated, s.replaced = s.truncated || t.Outcome.Truncated, s.replaced || t.Outcome.Replaced
		s.reference = cmp.Or(t.Outcome.Reference, s.reference)
		if t.Outcome.Kind == channel.Gone {
			s.removed++
		}
	}
	switch {
	case r.Step.Delivered:
		s.delivered++
	case r.Superseded:
		s.failed++
		s.superseded++
		s.class = string(channel.ClassSuperseded)
	case r.Step.Ended:
		s.failed++
	}
	s.duplicate = s.duplicate || r.Duplicate
	if r.DeliveryID != "" {
		s.delivery = r.DeliveryID
	}
}

// Backlog is the number of recipients of a channel that have not ended, and how long the one that is due longest has
// waited.
type Backlog struct {
	Channel channel.Name
	Waiting int64
	Oldest  time.Duration
}

// Backlogs returns the backlogs of all channels.
func (q *Queue) Backlogs(ctx context.Context) ([]Backlog, error) {
	rows, err := dbsql.New(q.pool).Backlog(ctx)
	if err != nil {
		return nil, failure("read backlog", err)
	}
	backlogs := make([]Backlog, len(rows))
	for i, r := range rows {
		backlogs[i] = Backlog{channel.Name(r.Channel), r.Waiting, time.Duration(r.OldestSeconds * float64(time.Second))}
	}
	return backlogs, nil
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
