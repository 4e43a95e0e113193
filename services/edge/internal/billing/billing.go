// Package billing reads the gateway's billed feed over HTTP. It implements spend.Source.
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

	"switchyard.dev/services/edge/internal/spend"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
)

const (
	pageSize = 200
	// maxPage bounds the size of a page in bytes.
	maxPage = 4 << 20
)

// Feed is the billed feed of a gateway.
type Feed struct {
	transport http.RoundTripper
	base      *url.URL
	token     secret.Value
}

// NewFeed returns the feed of the gateway at a base URL, which takes the edge's service token.
func NewFeed(transport http.RoundTripper, base *url.URL, token secret.Value) *Feed {
	return &Feed{transport: transport, base: base, token: token}
}

// record is a record of GET /v1/usage.
type record struct {
	Organization string    `json:"organization_id"`
	Key          *string   `json:"key_id"`
	StartedAt    time.Time `json:"started_at"`
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

var errCost = errors.New("a record's cost is no amount of pico-USD")

func (r *record) record() (spend.Record, error) {
	pico, err := strconv.ParseInt(r.Cost, 10, 64)
	if err != nil || pico < 0 {
		return spend.Record{}, errCost
	}
	converted := spend.Record{
		StartedAt: r.StartedAt, Pico: pico,
		Tokens: r.Input + r.CacheRead + r.CacheWrite + r.CacheWriteLong + r.ImageInput + r.AudioInput +
			r.Output + r.Reasoning + r.ImageOutput + r.AudioOutput,
	}
	if r.Key != nil {
		converted.Key = *r.Key
	}
	return converted, nil
}

// Page implements spend.Source.
func (f *Feed) Page(ctx context.Context, feed spend.Feed) (spend.Page, error) {
	var page struct {
		Records    []record `json:"records"`
		NextCursor string   `json:"next_cursor"`
	}
	if err := f.get(ctx, feed, &page); err != nil {
		return spend.Page{}, fmt.Errorf("GET /v1/usage: %w", err)
	}
	out := spend.Page{Records: make([]spend.Record, len(page.Records)), Next: page.NextCursor, More: len(page.Records) == pageSize}
	for i := range page.Records {
		if page.Records[i].Organization != feed.Organization {
			return spend.Page{}, errors.New("GET /v1/usage: a record of another organization")
		}
		var err error
		if out.Records[i], err = page.Records[i].record(); err != nil {
			return spend.Page{}, fmt.Errorf("GET /v1/usage: %w", err)
		}
	}
	return out, nil
}

func (f *Feed) get(ctx context.Context, feed spend.Feed, into any) error {
	target := f.base.JoinPath("/v1/usage")
	target.RawQuery = url.Values{
		"organization_id": {feed.Organization}, "since": {feed.Since.UTC().Format(time.RFC3339Nano)},
		"cursor": {feed.Cursor}, "limit": {strconv.Itoa(pageSize)},
	}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+f.token.Reveal())
	request.Header.Set(caller.HeaderOrganization, feed.Organization)
	answer, err := f.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxPage)).Decode(into); err != nil {
		return fmt.Errorf("decode page: %w", err)
	}
	return nil
}
