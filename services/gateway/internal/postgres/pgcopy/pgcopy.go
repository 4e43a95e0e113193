// Package pgcopy encodes rows in the binary format of Postgres' COPY. Each field is encoded straight into the bytes
// that are sent, without the type lookup and the conversion to any that the driver's own COPY costs. Package postgres
// uses it for what every request stores.
package pgcopy

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// header of the format: signature, no flags, no extension. Postgres manual, COPY, binary format.
const header = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// trailer is -1 where the next row would have its number of fields.
const trailer = "\xff\xff"

// jsonbVersion precedes the text of a jsonb.
const jsonbVersion = 1

// epoch is the zero of Postgres' time, in microseconds of Unix time.
var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// Rows encodes rows of one table. The fields of each row follow a call of Row, in the order and with the types of the
// statement's columns; the server refuses a row with others, and all rows with it. Rows is not safe for concurrent use.
type Rows struct {
	fields uint16
	bytes  []byte
}

// New returns empty Rows with the given number of fields each and capacity for size bytes.
func New(fields uint16, size int) *Rows {
	return &Rows{fields, append(make([]byte, 0, len(header)+size+len(trailer)), header...)}
}

// Send copies the rows with statement, a COPY … FROM STDIN (FORMAT binary), and returns the server's error. The rows
// stay and can be sent again.
func (r *Rows) Send(ctx context.Context, conn *pgx.Conn, statement string) error {
	_, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(append(r.bytes, trailer...)), statement)
	return err
}

// Row begins a row.
func (r *Rows) Row() { r.bytes = binary.BigEndian.AppendUint16(r.bytes, r.fields) }

func (r *Rows) size(n int) { r.bytes = binary.BigEndian.AppendUint32(r.bytes, uint32(n)) }

// Text appends texts.
func (r *Rows) Text(texts ...string) {
	for _, s := range texts {
		r.size(len(s))
		r.bytes = append(r.bytes, s...)
	}
}

// Bytes appends byteas; nil is an empty one.
func (r *Rows) Bytes(all ...[]byte) {
	for _, b := range all {
		r.size(len(b))
		r.bytes = append(r.bytes, b...)
	}
}

// JSON appends a jsonb by its text.
func (r *Rows) JSON(text []byte) {
	r.size(1 + len(text))
	r.bytes = append(append(r.bytes, jsonbVersion), text...)
}

// UUID appends a uuid.
func (r *Rows) UUID(id [16]byte) { r.Bytes(id[:]) }

// Bool appends booleans.
func (r *Rows) Bool(all ...bool) {
	for _, b := range all {
		r.size(1)
		if b {
			r.bytes = append(r.bytes, 1)
		} else {
			r.bytes = append(r.bytes, 0)
		}
	}
}

// Int16 appends a smallint.
func (r *Rows) Int16(n int16) {
	r.size(2)
	r.bytes = binary.BigEndian.AppendUint16(r.bytes, uint16(n))
}

// Int32 appends integers.
func (r *Rows) Int32(all ...int32) {
	for _, n := range all {
		r.size(4)
		r.bytes = binary.BigEndian.AppendUint32(r.bytes, uint32(n))
	}
}

// Int64 appends bigints.
func (r *Rows) Int64(all ...int64) {
	for _, n := range all {
		r.size(8)
		r.bytes = binary.BigEndian.AppendUint64(r.bytes, uint64(n))
	}
}

// Float64 appends double precisions.
func (r *Rows) Float64(all ...float64) {
	for _, f := range all {
		r.size(8)
		r.bytes = binary.BigEndian.AppendUint64(r.bytes, math.Float64bits(f))
	}
}

// Time appends timestamptz's, in microseconds.
func (r *Rows) Time(all ...time.Time) {
	for _, t := range all {
		r.Int64(t.UnixMicro() - epoch)
	}
}
