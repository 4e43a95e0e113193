package export

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// accepting is a billing system that takes every request.
type accepting struct{}

func (accepting) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, r.Body.Close()
}

// filled is a ledger with one page of records.
type filled struct{ billing.Page }

func (f filled) Read(context.Context, billing.Query) (billing.Page, error) { return f.Page, nil }
func (filled) Waiting(context.Context, feed.Position) int                  { return 0 }

func newFilled(n int) filled {
	page := billing.Page{Next: feed.Position{Transaction: 1, Row: int64(n)}}
	for i := range n {
		page.Records = append(page.Records, billing.Record{
			ID: fmt.Sprintf("0194fdc2-fa2f-4cc0-81d3-%012d", i), Organization: "acme",
			RecordedAt: exportedAt.Add(time.Duration(i) * time.Millisecond),
			Prompt:     1200, Completion: int64(i), Pico: 1_900_000_000 + int64(i),
		})
	}
	return filled{page}
}

var exportedAt = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// An iteration is a page of 1,000 records, from the feed to the last answer.
func BenchmarkLedgerPage(b *testing.B) {
	const rows = 1000
	for _, d := range []Destination{
		{Kind: StripeStream, Meters: map[string]string{"ledger.cost_pico_usd": "cost"}},
		{Kind: OpenMeter, Meters: map[string]string{"ledger.total_tokens": "tokens", "ledger.cost_cents": "cost"}},
		{Kind: Lago, Meters: map[string]string{"ledger.cost_cents": "cost"}},
	} {
		b.Run(string(d.Kind), func(b *testing.B) {
			d.Name, d.BaseURL, d.StreamURL = "d", "http://billing", "http://billing"
			d.KeyFile = secret.File(testkit.File(b, "key"))
			v := newVendor(&http.Client{Transport: accepting{}}, d, 0)
			if stream, ok := v.(*stripeStream); ok {
				stream.session.expires = time.Now().Add(time.Hour)
			}
			s := &sender{destination: d, vendor: v, Worker: NewWorker(Options{
				Settings: Settings{Lease: time.Minute}, Store: &memory{fence: 1, cursor: Cursor{ID: 1, Source: Ledger}},
				Pagers: map[Source]Pager{Ledger: NewLedgerFeed(newFilled(rows))}, Recorder: noRecorder{}, Log: testkit.Logger(b),
			})}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.round(b.Context(), exportedAt); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
		})
	}
}
