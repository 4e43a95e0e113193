package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/postgres/dbsql"
)

var _ delivery.Store = (*Store)(nil)

// Enqueue implements delivery.Store. A refused draft fails the transaction, so every count that is added belongs to an
// accepted draft.
func (s *Store) Enqueue(ctx context.Context, drafts []*delivery.Draft, lease delivery.Lease) ([]delivery.Stored, error) {
	calls := make([]*callcount.Count, len(drafts))
	for i, d := range drafts {
		calls[i] = d.Count
	}
	var stored []delivery.Stored
	err := s.transact(ctx, "enqueue", countsOf(calls...), func(q *dbsql.Queries) error {
		wanted := make(map[delivery.Target]bool, len(drafts))
		for _, d := range drafts {
			wanted[d.Target] = true
		}
		flows, err := lockFlows(ctx, q, wanted)
		if err != nil {
			return err
		}
		if stored, err = s.claimKeys(ctx, q, drafts); err != nil {
			return err
		}
		for i, d := range drafts {
			if d.AllOrNone && stored[i].Err != nil {
				return &delivery.RefusedError{Place: i, Err: stored[i].Err}
			}
		}
		return addDeliveries(ctx, q, drafts, flows, lease, stored)
	})
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// key is an idempotency key as it is stored: hashed, since it may be long and its text is private to the caller.
type key struct {
	organization string
	hash         [32]byte
}

func keyOf(d *delivery.Draft) key { return key{d.Organization, hashKey("", d.Owner, d.Key)} }

// hashKey returns the hash of an idempotency key for a kind of thing and an owner. Deliveries have no kind, and the
// owner may be empty. None of the three contains NUL, so different keys hash different texts.
func hashKey(kind, owner, name string) [32]byte {
	switch {
	case owner != "":
		name = kind + "\x00" + owner + "\x00" + name
	case kind != "":
		name = kind + "\x00" + name
	}
	return sha256.Sum256([]byte(name))
}

// claimKeys determines which drafts are new. The others get the id of the first delivery with their key, which may be
// in the same batch. An AllOrNone draft is refused if that delivery is of another request.
func (s *Store) claimKeys(ctx context.Context, q *dbsql.Queries, drafts []*delivery.Draft) ([]delivery.Stored, error) {
	stored := make([]delivery.Stored, len(drafts))
	firsts := make(map[key]*delivery.Draft)
	for i, d := range drafts {
		stored[i] = delivery.Stored{ID: d.ID, Status: delivery.StatusQueued}
		if d.Key != "" && firsts[keyOf(d)] == nil {
			firsts[keyOf(d)] = d
		}
	}
	if len(firsts) == 0 {
		return stored, nil
	}
	holders, err := s.holders(ctx, q, firsts)
	if err != nil {
		return nil, err
	}
	for i, d := range drafts {
		if d.Key == "" {
			continue
		}
		switch holder := holders[keyOf(d)]; {
		case holder.id == d.ID:
		case d.AllOrNone && holder.fingerprint != d.Fingerprint:
			stored[i] = delivery.Stored{Err: delivery.ErrKeyReused}
		default:
			stored[i] = delivery.Stored{
				ID: holder.id, Status: holder.status, Deduplicated: true, Mismatch: holder.fingerprint != d.Fingerprint,
			}
		}
	}
	return stored, nil
}

// holder is the first delivery with a key.
type holder struct {
	id          delivery.ID
	fingerprint [32]byte
	status      delivery.Status
}

func (s *Store) holders(ctx context.Context, q *dbsql.Queries, firsts map[key]*delivery.Draft) (map[key]holder, error) {
	p := dbsql.ClaimKeysParams{Lifetime: s.keyLifetime}
	byID := make(map[delivery.ID]key, len(firsts))
	for k, d := range firsts {
		byID[d.ID] = k
		p.Organizations, p.KeyHashes = append(p.Organizations, k.organization), append(p.KeyHashes, k.hash[:])
		p.Fingerprints, p.DeliveryIds = append(p.Fingerprints, d.Fingerprint[:]), append(p.DeliveryIds, uuidOf(d.ID))
	}
	won, err := q.ClaimKeys(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("claim keys: %w", err)
	}
	holders := make(map[key]holder, len(firsts))
	for _, id := range won {
		k := byID[id.Bytes]
		holders[k] = holder{id.Bytes, firsts[k].Fingerprint, delivery.StatusQueued}
	}
	if len(holders) == len(firsts) {
		return holders, nil
	}
	return holders, readHolders(ctx, q, firsts, holders)
}

// readHolders adds the deliveries of keys that were used before.
func readHolders(ctx context.Context, q *dbsql.Queries, firsts map[key]*delivery.Draft, holders map[key]holder) error {
	var p dbsql.ReadKeysParams
	for k := range firsts {
		if _, won := holders[k]; !won {
			p.Organizations, p.KeyHashes = append(p.Organizations, k.organization), append(p.KeyHashes, k.hash[:])
		}
	}
	rows, err := q.ReadKeys(ctx, p)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	if len(rows) != len(p.KeyHashes) {
		return errors.New("read keys: a key was removed between two statements")
	}
	var ids dbsql.ReadStatusesParams
	for _, r := range rows {
		ids.Ids = append(ids.Ids, r.DeliveryID)
		ids.CreatedAts = append(ids.CreatedAts, delivery.ID(r.DeliveryID.Bytes).Time())
	}
	statuses, err := q.ReadStatuses(ctx, ids)
	if err != nil {
		return fmt.Errorf("read statuses: %w", err)
	}
	byID := make(map[pgtype.UUID]delivery.Status, len(statuses))
	for _, r := range statuses {
		byID[r.ID] = statusOf(r.Status, r.Leased)
	}
	for _, r := range rows {
		k := key{r.OrganizationID, [32]byte(r.KeyHash)}
		holders[k] = holder{r.DeliveryID.Bytes, [32]byte(r.Fingerprint), byID[r.DeliveryID]}
	}
	return nil
}

// statusOf returns the status that callers see: a leased delivery is being delivered.
func statusOf(stored string, leased bool) delivery.Status {
	if leased {
		return delivery.StatusDelivering
	}
	return delivery.Status(stored)
}

// addDeliveries inserts the new drafts and records their flow and lease.
func addDeliveries(
	ctx context.Context, q *dbsql.Queries, drafts []*delivery.Draft, flows map[delivery.Target]delivery.Flow,
	lease delivery.Lease, stored []delivery.Stored,
) error {
	places, err := joinOrder(ctx, q, orderedOf(drafts, flows, stored))
	if err != nil {
		return err
	}
	p := dbsql.AddDeliveriesParams{Lease: lease.Duration, ReplicaID: lease.Replica, BlockedUntil: blockedUntil}
	var advance dbsql.AdvanceFlowsParams
	for i, d := range drafts {
		if !stored[i].New() {
			continue
		}
		headers, err := headerText(d.Headers)
		if err != nil {
			return err
		}
		flow := flows[d.Target]
		flow.Metered = flow.Metered && !d.Test // A test is sent even while the circuit is open.
		position, blocked := places.place(orderKey{flow.ID, d.OrderingKey})
		leased, due := !blocked && lease.Reserve(flow, len(d.Body)), time.Duration(0)
		stored[i].Flow, stored[i].Position = flow, position
		if leased {
			stored[i].LeaseSeq, due = 1, lease.Duration
		}
		p.Ids, p.CreatedAts = append(p.Ids, uuidOf(d.ID)), append(p.CreatedAts, d.ID.Time())
		p.Organizations, p.Owners = append(p.Organizations, d.Organization), append(p.Owners, d.Owner)
		p.FlowIds, p.Urls = append(p.FlowIds, flow.ID), append(p.Urls, d.URL)
		p.EventTypes, p.Headers = append(p.EventTypes, d.EventType), append(p.Headers, headers)
		p.SealedHeaders, p.Keys = append(p.SealedHeaders, d.Sealed), append(p.Keys, d.Key)
		p.Traceparents = append(p.Traceparents, d.Traceparent)
		p.MaxAttempts = append(p.MaxAttempts, int32(d.MaxAttempts))
		p.Deadlines, p.Bodies = append(p.Deadlines, orEpoch(d.Deadline)), append(p.Bodies, d.Body)
		p.Leased, p.SigningModes = append(p.Leased, leased), append(p.SigningModes, d.SigningMode)
		id, moves := endpointOf(d)
		p.Endpoints, p.Moves, p.Tests = append(p.Endpoints, id), append(p.Moves, moves), append(p.Tests, d.Test)
		p.OrderingKeys, p.Positions = append(p.OrderingKeys, d.OrderingKey), append(p.Positions, position)
		p.ManyPaths = append(p.ManyPaths, flow.ManyPaths || d.OrderingKey != "" && d.Endpoint == nil)
		if !blocked {
			advance.FlowIds, advance.Delays = append(advance.FlowIds, flow.ID), append(advance.Delays, due)
		}
	}
	if len(p.Ids) == 0 {
		return nil
	}
	if err := q.AddDeliveries(ctx, p); err != nil {
		return fmt.Errorf("add deliveries: %w", err)
	}
	if len(advance.FlowIds) == 0 {
		return nil
	}
	if err := q.AdvanceFlows(ctx, advance); err != nil {
		return fmt.Errorf("advance flows: %w", err)
	}
	return nil
}

// orderedOf counts the new drafts of each ordering key.
func orderedOf(drafts []*delivery.Draft, flows map[delivery.Target]delivery.Flow, stored []delivery.Stored) map[orderKey]int64 {
	added := make(map[orderKey]int64)
	for i, d := range drafts {
		if d.OrderingKey != "" && stored[i].New() {
			added[orderKey{flows[d.Target].ID, d.OrderingKey}]++
		}
	}
	return added
}

// endpointOf returns the id and the moves of the draft's endpoint; the zero id and -1 stand for none.
func endpointOf(d *delivery.Draft) (id pgtype.UUID, moves int32) {
	if d.Endpoint == nil {
		return uuidOf(delivery.ID{}), -1
	}
	return uuidOf(d.Endpoint.ID), int32(d.Endpoint.Moves)
}

func headerText(headers map[string]string) (string, error) {
	if len(headers) == 0 {
		return "", nil
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return "", fmt.Errorf("marshal headers: %w", err)
	}
	return string(text), nil
}
