package trace

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"
)

const (
	// Span bounds the time between the first and the last start of a segment's records: they begin in one hour.
	Span = time.Hour
	// maxContents is the size from which on the contents of further records go into another segment, in bytes.
	maxContents = 1 << 20
	// maxRecords is the largest size, in bytes of JSON, of the records that Unpack accepts. A batch stays below a tenth of
	// it.
	maxRecords = 64 << 20
)

// Kinds of segments.
const (
	KindRecords  = "records"
	KindContents = "contents"
)

// Segment holds records of one organization that were stored together, or the contents of those records.
type Segment struct {
	// ID is the first record's id, so that storing the same batch again yields the same ids.
	ID                 uuid.UUID
	Kind, Organization string
	// First and Last are when the first and the last of the requests began.
	First, Last time.Time
	// ExpiresAt is when the last of the records or contents expires.
	ExpiresAt time.Time
	// Names and Facets are hashes by which records are found; see Filter.Names and Filter.Facets.
	Names, Facets []int64
	// Body holds the records as JSON in an S2 block, or the contents, each sealed, concatenated.
	Body []byte
}

// Segments returns the segments of records and of their contents.
func Segments(records []Record) ([]Segment, error) {
	type group struct {
		organization string
		hour         time.Time
	}
	var order []group
	grouped := make(map[group][]Record)
	for i := range records {
		g := group{records[i].Organization, records[i].StartedAt.UTC().Truncate(Span)}
		if grouped[g] == nil {
			order = append(order, g)
		}
		grouped[g] = append(grouped[g], records[i].stored())
	}
	segments := make([]Segment, 0, len(order))
	for _, g := range order {
		for rest := grouped[g]; len(rest) > 0; {
			n, size := 0, 0
			for ; n < len(rest) && size < maxContents; n++ {
				if rest[n].Content != nil {
					size += rest[n].Content.Size
				}
			}
			both, err := newSegments(rest[:n])
			if err != nil {
				return nil, err
			}
			segments, rest = append(segments, both...), rest[n:]
		}
	}
	return segments, nil
}

// stored returns a record as it is read back: its times have microseconds, as cursors have.
func (r Record) stored() Record {
	r.StartedAt, r.ExpiresAt = r.StartedAt.Truncate(time.Microsecond), r.ExpiresAt.Truncate(time.Microsecond)
	if r.Content != nil {
		content := *r.Content
		content.Size = len(content.Sealed)
		r.Content = &content
	}
	return r
}

// newSegments returns one segment for at least one record, and another for their contents if there are any. It sets the
// offsets of the contents.
func newSegments(records []Record) ([]Segment, error) {
	first := &records[0]
	s := Segment{ID: first.ID, Kind: KindRecords, Organization: first.Organization, First: first.StartedAt, Last: first.StartedAt}
	contents := Segment{Kind: KindContents}
	names, facets := labels{}, labels{}
	for i := range records {
		r := &records[i]
		s.First, s.Last, s.ExpiresAt = earlier(s.First, r.StartedAt), later(s.Last, r.StartedAt), later(s.ExpiresAt, r.ExpiresAt)
		r.addNames(names)
		r.addFacets(facets)
		if c := r.Content; c != nil {
			c.Offset = len(contents.Body)
			contents.Body = append(contents.Body, c.Sealed...)
			contents.ExpiresAt = later(contents.ExpiresAt, c.ExpiresAt)
		}
	}
	text, err := json.Marshal(records)
	if err != nil {
		return nil, fmt.Errorf("encode records: %w", err)
	}
	s.Body, s.Names, s.Facets = s2.Encode(nil, text), names.hashes(), facets.hashes()
	if contents.Body == nil {
		return []Segment{s}, nil
	}
	contents.ID, contents.Organization, contents.First, contents.Last = s.ID, s.Organization, s.First, s.Last
	contents.Names, contents.Facets = []int64{}, []int64{}
	return []Segment{s, contents}, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Unpack returns the records of a segment's body. hasContents says whether the store still has their contents.
func Unpack(id uuid.UUID, body []byte, hasContents bool, now time.Time) ([]Record, error) {
	size, err := s2.DecodedLen(body)
	if err != nil {
		return nil, fmt.Errorf("unpack records: %w", err)
	}
	if size > maxRecords {
		return nil, fmt.Errorf("unpack records: %d bytes, more than %d", size, maxRecords)
	}
	text, err := s2.Decode(nil, body)
	if err != nil {
		return nil, fmt.Errorf("unpack records: %w", err)
	}
	var records []Record
	if err := json.Unmarshal(text, &records); err != nil {
		return nil, fmt.Errorf("decode records: %w", err)
	}
	for i := range records {
		switch c := records[i].Content; {
		case c == nil:
		case !hasContents || !c.ExpiresAt.After(now):
			records[i].Content = nil
		default:
			c.Segment = id
		}
	}
	return records, nil
}
