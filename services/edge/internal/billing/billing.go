// Package billing reads the gateway's billed feed over HTTP. Package spend adds it up, package export sends it to billing
// systems.
package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

const (
	// MaxPage is how many records a page has at most.
	MaxPage = 200
	// maxBytes bounds the size of a page in bytes.
	maxBytes = 8 << 20
)

// Feed is the billed feed of a gateway, GET /v1/usage: it returns each record once, in the order of commits.
type Feed struct {
	transport http.RoundTripper
	url       *url.URL
	token     func() (secret.Value, error)
}

// NewFeed returns the feed of the gateway at a base URL. token returns a service token; that of an operator reads all
// organizations.
func NewFeed(transport http.RoundTripper, base *url.URL, token func() (secret.Value, error)) *Feed {
	return &Feed{transport: transport, url: base.JoinPath("/v1/usage"), token: token}
}

// Query selects records. A cursor belongs to the other fields.
type Query struct {
	// Organization is empty for all.
	Organization string
	// Since and Until bound when records were recorded; a zero Until means no bound.
	Since, Until time.Time
	// Cursor is Next of the page before, empty for the first.
	Cursor string
	// Limit is 1 to MaxPage.
	Limit int
}

// Page is a page of the feed. Next is the cursor of the records after it, More reports that there may be some already.
type Page struct {
	Records []Record
	Next    string
	More    bool
}

// Record is a billed call.
type Record struct {
	ID, Organization string
	// Key is the customer key, empty for a call without one.
	Key                   string
	StartedAt, RecordedAt time.Time
	// Prompt and Completion are the tokens of all kinds.
	Prompt, Completion int64
	// Pico is the cost in pico-USD.
	Pico int64
}

// Tokens returns the tokens of the call.
func (r *Record) Tokens() int64 { return r.Prompt + r.Completion }

// row is a record as the gateway writes it.
type row struct {
	ID           string    `json:"id"`
	Organization string    `json:"organization_id"`
	Key          *string   `json:"key_id"`
	StartedAt    time.Time `json:"started_at"`
	RecordedAt   time.Time `json:"recorded_at"`
	Cost         string    `json:"cost_pico_usd"`
	// The buckets of tokens, which are disjoint.
	Input          int64 `json:"input_tokens"`
	CacheRead      int64 `json:"cache_read_tokens"`
	CacheWrite     int64 `json:"cache_write_tokens"`
	CacheWriteLong int64 `json:"cache_write_long_tokens"`
	ImageInput     int64 `json:"image_input_tokens"`
	AudioInput     int64 `json:"audio_input_tokens"`
	Output         int64 `json:"output_tokens"`
	Reasoning      int64 `json:"reasoning_tokens"`
	ImageOutput    int64 `json:"image_output_tokens"`
	AudioOutput    int64 `json:"audio_output_tokens"`
}

var errCost = errors.New("the cost of a record is not a valid amount of pico-USD")

func (r *row) record() (Record, error) {
	pico, err := strconv.ParseInt(r.Cost, 10, 64)
	if err != nil || pico < 0 {
		return Record{}, errCost
	}
	record := Record{
		ID: r.ID, Organization: r.Organization, StartedAt: r.StartedAt, RecordedAt: r.RecordedAt, Pico: pico,
		Prompt:     r.Input + r.CacheRead + r.CacheWrite + r.CacheWriteLong + r.ImageInput + r.AudioInput,
		Completion: r.Output + r.Reasoning + r.ImageOutput + r.AudioOutput,
	}
	if r.Key != nil {
		record.Key = *r.Key
	}
	return record, nil
}

// Read returns a page of the records that a query selects.
func (f *Feed) Read(ctx context.Context, q Query) (Page, error) {
	var answer struct {
		Records []row  `json:"records"`
		Next    string `json:"next_cursor"`
	}
	if err := f.get(ctx, q, &answer); err != nil {
		return Page{}, fmt.Errorf("GET /v1/usage: %w", err)
	}
	page := Page{Records: make([]Record, len(answer.Records)), Next: answer.Next, More: len(answer.Records) == q.Limit}
	for i := range answer.Records {
		if organization := answer.Records[i].Organization; q.Organization != "" && organization != q.Organization {
			return Page{}, errors.New("GET /v1/usage: a record of another organization")
		}
		var err error
		if page.Records[i], err = answer.Records[i].record(); err != nil {
			return Page{}, fmt.Errorf("GET /v1/usage: %w", err)
		}
	}
	return page, nil
}

func (q Query) values() url.Values {
	values := url.Values{"since": {q.Since.UTC().Format(time.RFC3339Nano)}, "limit": {strconv.Itoa(q.Limit)}}
	if q.Organization != "" {
		values.Set("organization_id", q.Organization)
	}
	if !q.Until.IsZero() {
		values.Set("until", q.Until.UTC().Format(time.RFC3339Nano))
	}
	if q.Cursor != "" {
		values.Set("cursor", q.Cursor)
	}
	return values
}

func (f *Feed) get(ctx context.Context, q Query, into any) error {
	token, err := f.token()
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	target := *f.url
	target.RawQuery = q.values().Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token.Reveal())
	if q.Organization != "" {
		request.Header.Set(caller.HeaderOrganization, q.Organization)
	}
	answer, err := f.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("read page: %w", err)
	case len(text) > maxBytes:
		return fmt.Errorf("a page of more than %d bytes", maxBytes)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decode page: %w", err)
	}
	return nil
}
