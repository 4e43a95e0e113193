package pgdb

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// writeUUIDs has a connection write a uuid.UUID as the sixteen bytes that it is.
// The driver knows it as a driver.Valuer only, whose text it parses again: a fifth
// of what it costs to write a row.
func writeUUIDs(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{wrapUUID}, types.TryWrapEncodePlanFuncs...)
	return nil
}

func wrapUUID(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	id, ok := value.(uuid.UUID)
	if !ok {
		return nil, nil, false
	}
	return &uuidPlan{}, uuidBytes(id), true
}

// uuidBytes is a uuid.UUID as the driver wants it.
type uuidBytes uuid.UUID

// UUIDValue implements pgtype.UUIDValuer.
func (u uuidBytes) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: u, Valid: true}, nil
}

type uuidPlan struct{ next pgtype.EncodePlan }

// SetNext implements pgtype.WrappedEncodePlanNextSetter.
func (p *uuidPlan) SetNext(next pgtype.EncodePlan) { p.next = next }

// Encode implements pgtype.EncodePlan. The driver plans by type, so that every
// value of this plan is one.
func (p *uuidPlan) Encode(value any, buf []byte) ([]byte, error) {
	id, _ := value.(uuid.UUID)
	return p.next.Encode(uuidBytes(id), buf)
}
