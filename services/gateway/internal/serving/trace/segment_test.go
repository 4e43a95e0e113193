package trace

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"
)

// began is when the records of these tests begin, 10 minutes before an hour ends.
var began = time.Date(2026, 11, 22, 9, 50, 0, 0, time.UTC)

func recordAt(organization string, after time.Duration, content int) Record {
	at := began.Add(after)
	r := Record{
		ID: uuid.New(), RequestID: "r", Organization: organization, Operation: "chat", Provider: "p", Model: "m", Status: "ok",
		StartedAt: at, ExpiresAt: at.Add(time.Hour),
	}
	if content > 0 {
		r.Content = &Content{Key: "k", Sealed: bytes.Repeat([]byte{byte(content)}, content), CapturedAt: at, ExpiresAt: at.Add(time.Minute)}
	}
	return r
}

// Records share a segment if they are of one organization and began in one hour, as long as their contents have room.
func TestSegments(t *testing.T) {
	records := []Record{
		recordAt("acme", 0, 100), recordAt("bolt", 0, 0), recordAt("acme", 2*time.Minute, 50), recordAt("acme", time.Minute, 0),
		recordAt("acme", 10*time.Minute, maxContents-1), recordAt("acme", 11*time.Minute, 2), recordAt("acme", 12*time.Minute, 3),
	}
	segments, err := Segments(records)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range segments {
		if s.Last.Sub(s.First) >= Span {
			t.Errorf("segment %s spans %s", s.ID, s.Last.Sub(s.First))
		}
		first := slices.IndexFunc(records, func(r Record) bool { return r.ID == s.ID })
		got = append(got, fmt.Sprintf("%s of %s from %d: %s to %s, expires %s", s.Kind, s.Organization, first,
			s.First.Sub(began), s.Last.Sub(began), s.ExpiresAt.Sub(began)))
	}
	want := []string{
		"records of acme from 0: 0s to 2m0s, expires 1h2m0s", "contents of acme from 0: 0s to 2m0s, expires 3m0s",
		"records of bolt from 1: 0s to 0s, expires 1h0m0s",
		"records of acme from 4: 10m0s to 11m0s, expires 1h11m0s", "contents of acme from 4: 10m0s to 11m0s, expires 12m0s",
		"records of acme from 6: 12m0s to 12m0s, expires 1h12m0s", "contents of acme from 6: 12m0s to 12m0s, expires 13m0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("segments (-want +got):\n%s", diff)
	}
	unpacked, err := Unpack(segments[0].ID, segments[0].Body, true, began)
	if err != nil || len(unpacked) != 3 {
		t.Fatalf("%d records, %v, want 3", len(unpacked), err)
	}
	for i, of := range []int{0, 2, 3} {
		if unpacked[i].ID != records[of].ID {
			t.Errorf("record %d is not record %d of all", i, of)
		}
		want := records[of].Content
		c := unpacked[i].Content
		if want == nil || c == nil {
			if (want == nil) != (c == nil) {
				t.Errorf("record %d: content %+v, want %+v", i, c, want)
			}
			continue
		}
		if piece := segments[1].Body[c.Offset : c.Offset+c.Size]; !bytes.Equal(piece, want.Sealed) || c.Segment != segments[0].ID {
			t.Errorf("record %d: a content of %d bytes of segment %s, want %d of %s", i, len(piece), c.Segment, len(want.Sealed), segments[0].ID)
		}
	}
}

// Hashes of runs and replays differ between organizations; hashes of request ids do not.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		a, b Filter
		same bool
	}{
		"requests": {Filter{Organization: "acme", Request: "x"}, Filter{Organization: "bolt", Request: "x"}, true},
		"runs":     {Filter{Organization: "acme", Run: "x"}, Filter{Organization: "bolt", Run: "x"}, false},
		"replays":  {Filter{Organization: "acme", ReplayOf: "x"}, Filter{Organization: "bolt", ReplayOf: "x"}, false},
		"kinds":    {Filter{Organization: "acme", ReplayOf: "x"}, Filter{Organization: "acme", Run: "x"}, false},
		"none":     {Filter{Organization: "acme"}, Filter{Organization: "bolt"}, true},
	} {
		if got := slices.Equal(c.a.Names(), c.b.Names()); got != c.same {
			t.Errorf("%s: %v and %v, want the same: %t", name, c.a.Names(), c.b.Names(), c.same)
		}
	}
	if n := len((&Filter{Operation: "chat", Provider: "p", Model: "m", Status: "ok", Request: "x"}).Facets()); n != 4 {
		t.Errorf("%d facets, want 4", n)
	}
}

func TestUnpackTooLarge(t *testing.T) {
	if records, err := Unpack(uuid.Nil, s2.Encode(nil, make([]byte, maxRecords+1)), true, began); err == nil {
		t.Errorf("%d records", len(records))
	}
}

func FuzzUnpack(f *testing.F) {
	segments, err := Segments([]Record{recordAt("acme", 0, 9), recordAt("acme", time.Minute, 0)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(segments[0].Body)
	f.Add(s2.Encode(nil, []byte(`[{"content":{}},{"content":null}]`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		records, err := Unpack(uuid.Nil, body, true, began)
		if err != nil {
			return
		}
		page := NewPage(Filter{Limit: 3}, began)
		if page.Add(records); len(page.Records()) > 3 {
			t.Errorf("a page of %d", len(page.Records()))
		}
	})
}

// batchOf returns a batch of records as a busy organization's calls leave them.
func batchOf(n, content int) []Record {
	records := make([]Record, n)
	for i := range records {
		r := recordAt("acme", time.Duration(i)*time.Millisecond, content)
		r.RequestID, r.Run, r.Key, r.Service = fmt.Sprint("req_", uuid.New()), "run-1", "key-1", "edge"
		r.RequestedModel, r.Credential, r.Fingerprint, r.Route = "gpt-5", "fleet", "0011aabb", "policy"
		r.PolicyVersion, r.PriceVersion, r.Billed, r.Prompt, r.Completion, r.Cost = "p1", "openai/gpt-5@2026-01-01", true, 200, 30, 123456
		r.RequestDigest, r.ResponseDigest = bytes.Repeat([]byte{byte(i)}, 32), bytes.Repeat([]byte{byte(i + 1)}, 32)
		r.Attempts = []Attempt{{Provider: "openai", Model: "gpt-5", Credential: "fleet", Outcome: TryOK, StartedAt: r.StartedAt, DurationMs: 12.5}}
		records[i] = r
	}
	return records
}

func BenchmarkSegments(b *testing.B) {
	records := batchOf(200, 1000)
	b.ReportAllocs()
	for b.Loop() {
		segments, err := Segments(records)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(segments[0].Body))/float64(len(records)), "bytes/record")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
}

func BenchmarkUnpack(b *testing.B) {
	segments, err := Segments(batchOf(200, 1000))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Unpack(segments[0].ID, segments[0].Body, true, began); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*200), "ns/record")
}
