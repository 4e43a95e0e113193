package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
	"switchyard.dev/services/webhook-egress/internal/replay"
)

// Replays persists the jobs of bulk replay.
type Replays struct{ *Store }

var (
	_ replay.Store = Replays{}
	_ replay.Jobs  = Replays{}
)

const (
	// countWindow and pageWindow are how many deliveries are examined at a time, to count the matching ones and to
	// find the next to resend.
	countWindow, pageWindow = 5000, 2000
)

// search is the range of ids that a job examines: after one id, up to another.
type search struct {
	organization, owner string
	filter              replay.Filter
	match               dbsql.MatchEndedParams
	before              delivery.ID
}

func newSearch(organization, owner string, f replay.Filter, created time.Time) (search, error) {
	s := search{organization: organization, owner: owner, filter: f, before: delivery.FirstID(created)}
	if !f.CreatedTo.IsZero() {
		s.before = lower(s.before, delivery.FirstID(f.CreatedTo))
	}
	s.match = dbsql.MatchEndedParams{
		OrganizationID: organization, OwnerID: owner, EndedBefore: created, EventType: f.EventType,
		HostPattern: delivery.HostPattern(f.Host),
	}
	for _, status := range f.Wanted() {
		s.match.Statuses = append(s.match.Statuses, string(status))
	}
	var err error
	s.match.EndpointID, err = uuidOrNull(f.EndpointID)
	return s, err
}

// start returns the id before the first one.
func (s *search) start() delivery.ID {
	if s.filter.CreatedFrom.IsZero() {
		return delivery.ID{}
	}
	return delivery.FirstID(s.filter.CreatedFrom)
}

// look returns the next ids after one, oldest first; fewer than window means that they are the last.
func (s *search) look(ctx context.Context, q *dbsql.Queries, after delivery.ID, window int) ([]pgtype.UUID, error) {
	if len(s.filter.DeliveryIDs) > 0 {
		return s.listed(after, window)
	}
	p := dbsql.OldestOfOrganizationParams{
		OrganizationID: s.organization, After: uuidOf(after), Before: uuidOf(s.before),
		FromTime: after.Time(), ToTime: s.before.Time().Add(time.Millisecond), Page: int32(window),
	}
	switch {
	case s.match.EndpointID.Valid:
		return q.OldestOfEndpoint(ctx, dbsql.OldestOfEndpointParams{
			EndpointID: s.match.EndpointID, After: p.After, Before: p.Before, FromTime: p.FromTime, ToTime: p.ToTime, Page: p.Page,
		})
	case s.filter.OnlyDeadLetters():
		return q.OldestDeadLetters(ctx, dbsql.OldestDeadLettersParams(p))
	}
	return q.OldestOfOrganization(ctx, p)
}

// listed returns the next of the ids that the caller listed.
func (s *search) listed(after delivery.ID, window int) ([]pgtype.UUID, error) {
	var ids []pgtype.UUID
	for _, text := range s.filter.DeliveryIDs {
		id, err := delivery.ParseID(text)
		if err != nil {
			return nil, err
		}
		if bytes.Compare(id[:], after[:]) > 0 {
			ids = append(ids, uuidOf(id))
		}
	}
	slices.SortFunc(ids, func(a, b pgtype.UUID) int { return bytes.Compare(a.Bytes[:], b.Bytes[:]) })
	ids = slices.Compact(ids)
	return ids[:min(len(ids), window)], nil
}

func (s *search) matching(ctx context.Context, q *dbsql.Queries, ids []pgtype.UUID) ([]pgtype.UUID, error) {
	p := s.match
	p.Ids, p.CreatedAts = ids, timesOf(ids)
	return q.MatchEnded(ctx, p)
}

// count returns how many deliveries match.
func (s *search) count(ctx context.Context, q *dbsql.Queries) (int, error) {
	total := 0
	for after := s.start(); ; {
		ids, err := s.look(ctx, q, after, countWindow)
		if err != nil || len(ids) == 0 {
			return total, err
		}
		found, err := s.matching(ctx, q, ids)
		if err != nil {
			return total, err
		}
		total += len(found)
		if len(ids) < countWindow {
			return total, nil
		}
		after = ids[len(ids)-1].Bytes
	}
}

// later returns a time after the end of all deliveries that have ended, even if clocks differ.
func later() time.Time { return time.Now().Add(24 * time.Hour) }

// Count implements replay.Store.
func (s Replays) Count(ctx context.Context, organization, owner string, f replay.Filter) (int, error) {
	where, err := newSearch(organization, owner, f, later())
	if err != nil {
		return 0, err
	}
	matched, err := where.count(ctx, s.sql)
	return matched, explain("count", err)
}

// Create implements replay.Store.
func (s Replays) Create(ctx context.Context, d replay.Draft) (created replay.Replay, deduplicated bool, err error) {
	err = s.inCountedTx(ctx, "create replay", countsOf(d.Count), func(q *dbsql.Queries) error {
		if d.Key != "" {
			first, won, err := s.claimKey(ctx, q, use{kindReplay, d.Organization, d.Owner, d.Key, d.Fingerprint, d.ID})
			if err != nil {
				return err
			}
			if deduplicated = !won; deduplicated {
				created, err = readReplay(ctx, q, d, first)
				return err
			}
		}
		where, err := newSearch(d.Organization, d.Owner, d.Filter, later())
		if err != nil {
			return err
		}
		matched, err := where.count(ctx, q)
		if err != nil {
			return fmt.Errorf("count: %w", err)
		}
		filter, err := json.Marshal(d.Filter)
		if err != nil {
			return fmt.Errorf("marshal filter: %w", err)
		}
		row, err := q.AddReplay(ctx, dbsql.AddReplayParams{
			ID: uuidOf(d.ID), OrganizationID: d.Organization, OwnerID: d.Owner, Filter: string(filter), Matched: int32(matched),
			MaxAttempts: int32(d.MaxAttempts), Deadline: orEpoch(d.Deadline), RatePerSecond: d.RatePerSecond,
		})
		if err != nil {
			return fmt.Errorf("add replay: %w", err)
		}
		created, err = replayOf(&row)
		return err
	})
	return created, deduplicated, err
}

// readReplay returns the job with an id, if it belongs to the draft's organization and owner.
func readReplay(ctx context.Context, q *dbsql.Queries, d replay.Draft, id delivery.ID) (replay.Replay, error) {
	row, err := q.GetReplay(ctx, dbsql.GetReplayParams{ID: uuidOf(id), OrganizationID: d.Organization, OwnerID: d.Owner})
	if err != nil {
		return replay.Replay{}, fmt.Errorf("read replay: %w", err)
	}
	return replayOf(&row)
}

// Get implements replay.Store.
func (s Replays) Get(ctx context.Context, organization, owner string, id delivery.ID) (replay.Replay, error) {
	row, err := s.sql.GetReplay(ctx, dbsql.GetReplayParams{ID: uuidOf(id), OrganizationID: organization, OwnerID: owner})
	if err != nil {
		return replay.Replay{}, explain("read replay", notFound("replay", err))
	}
	return replayOf(&row)
}

// List implements replay.Store.
func (s Replays) List(ctx context.Context, organization, owner string, before delivery.ID, limit int) ([]replay.Replay, error) {
	rows, err := s.sql.ListReplays(ctx, dbsql.ListReplaysParams{
		OrganizationID: organization, OwnerID: owner, Before: uuidOf(before), Page: int32(limit),
	})
	if err != nil {
		return nil, explain("list replays", err)
	}
	page := make([]replay.Replay, len(rows))
	for i := range rows {
		if page[i], err = replayOf(&rows[i]); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// Cancel implements replay.Store.
func (s Replays) Cancel(ctx context.Context, id delivery.ID) error {
	_, err := s.sql.CancelReplay(ctx, uuidOf(id))
	return explain("cancel replay", err)
}

// Page implements replay.Jobs.
func (s Replays) Page(ctx context.Context) (done replay.Done, err error) {
	err = s.inTx(ctx, "replay page", func(q *dbsql.Queries) error {
		jobs, err := q.TakeReplay(ctx)
		if err != nil || len(jobs) == 0 {
			return err
		}
		done.Found, done.Job = true, jobs[0].ID.Bytes
		if deadline := jobs[0].DeadlineAt; deadline != nil && !time.Now().Before(*deadline) {
			return q.FailReplay(ctx, dbsql.FailReplayParams{ID: jobs[0].ID, Error: replay.ErrorDeadline})
		}
		return lifecycle.Protect(ctx, "webhook replay", func() (err error) {
			done.Queued, err = work(ctx, q, &jobs[0])
			return err
		})
	})
	if err != nil {
		done.Queued = 0
	}
	return done, err
}

// work processes a page of a locked job and returns how many deliveries it queued.
func work(ctx context.Context, q *dbsql.Queries, job *dbsql.Replay) (int, error) {
	r, err := replayOf(job)
	if err != nil {
		return 0, err
	}
	where, err := newSearch(r.Organization, r.Owner, r.Filter, r.Created)
	if err != nil {
		return 0, err
	}
	after := where.start()
	if job.Cursor.Valid {
		after = job.Cursor.Bytes
	}
	ids, err := where.look(ctx, q, after, pageWindow)
	if err != nil {
		return 0, fmt.Errorf("look: %w", err)
	}
	move := dbsql.MoveReplayParams{ID: job.ID, Status: string(replay.StatusRunning), Cursor: job.Cursor}
	last := len(ids) < pageWindow
	var done requeued
	if len(ids) > 0 {
		move.Cursor = ids[len(ids)-1]
		matched, err := where.matching(ctx, q, ids)
		if err != nil {
			return 0, fmt.Errorf("match: %w", err)
		}
		page, pause := replay.Pace(job.RatePerSecond)
		if len(matched) > page {
			matched, last = matched[:page], false
			move.Cursor = matched[page-1]
		}
		if len(matched) > 0 {
			if done, err = requeue(ctx, q, r.Organization, matched, int(orZero(job.MaxAttempts)), orZero(job.DeadlineAt)); err != nil {
				return 0, err
			}
		}
		move.Replayed, move.Skipped, move.Delay = int32(done.count), int32(len(matched)-done.count), pause(done.count)
	}
	if last {
		move.Status = string(replay.StatusCompleted)
	}
	if err := q.MoveReplay(ctx, move); err != nil {
		return 0, fmt.Errorf("move: %w", err)
	}
	if last {
		return done.count, q.CloseReplay(ctx, job.ID)
	}
	return done.count, nil
}

// Fail implements replay.Jobs.
func (s Replays) Fail(ctx context.Context, id delivery.ID, reason string) error {
	return explain("fail replay", s.sql.FailReplay(ctx, dbsql.FailReplayParams{ID: uuidOf(id), Error: reason}))
}

// Postpone implements replay.Jobs.
func (s Replays) Postpone(ctx context.Context, id delivery.ID, pause time.Duration) error {
	return explain("postpone replay", s.sql.PostponeReplay(ctx, dbsql.PostponeReplayParams{ID: uuidOf(id), Delay: pause}))
}

func replayOf(row *dbsql.Replay) (replay.Replay, error) {
	r := replay.Replay{
		ID: row.ID.Bytes, Organization: row.OrganizationID, Owner: orZero(row.OwnerID), Status: replay.Status(row.Status),
		Matched: int(row.Matched), Replayed: int(row.Replayed), Skipped: int(row.Skipped), Error: orZero(row.Error),
		Created: row.CreatedAt, Updated: row.UpdatedAt, Finished: orZero(row.FinishedAt),
	}
	if err := json.Unmarshal(row.Filter, &r.Filter); err != nil {
		return replay.Replay{}, fmt.Errorf("filter of replay %s: %w: %w", r.ID, delivery.ErrRejected, err)
	}
	return r, nil
}
