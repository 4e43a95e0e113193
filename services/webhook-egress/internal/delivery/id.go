package delivery

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"
)

// ID identifies a delivery, an endpoint, an event or a job. It is a UUID of version 7 (RFC 9562, 5.7): its first 48
// bits are the Unix time of creation in milliseconds, so that storage derives the day from the id alone.
type ID [16]byte

// NewID returns a new id for something created at now.
func NewID(now time.Time) ID {
	var id ID
	_, _ = rand.Read(id[6:]) // never fails
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Sibling returns a new id with the creation time of id.
func (id ID) Sibling() ID { return NewID(id.Time()) }

// LastID is higher than every other id.
var LastID = ID(bytes.Repeat([]byte{0xff}, len(ID{})))

// FirstID returns the lowest id that something created at or after a moment can have.
func FirstID(at time.Time) ID {
	var id ID
	ms := uint64(max(0, at.Add(time.Millisecond-1).UnixMilli()))
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

var errID = errors.New("not an id of this service")

// ParseID parses the text form that String returns.
func ParseID(text string) (ID, error) {
	var id ID
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return ID{}, errID
	}
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil || id[6]>>4 != 7 || id[8]>>6 != 2 {
		return ID{}, errID
	}
	return id, nil
}

// Time returns the creation time, to the millisecond, in UTC.
func (id ID) Time() time.Time {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
}

// String returns the canonical text of the UUID.
func (id ID) String() string {
	var text [36]byte
	at := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:at+2], []byte{b})
		at += 2
	}
	return string(text[:])
}
