package export

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/secret"
)

const (
	// maxFeedPage is the largest page of the gateway's feed, maxFeedBytes the size of its answer that is read.
	maxFeedPage  = 200
	maxFeedBytes = 8 << 20
)

// LedgerFeed reads the gateway's billed feed, GET /v1/usage, which returns each record once and in the order of commits.
type LedgerFeed struct {
	client *http.Client
	url    *url.URL
	token  *secret.Cached[secret.Value]
}

// NewLedgerFeed returns the feed of the gateway at base. The token is an operator's.
func NewLedgerFeed(client *http.Client, base *url.URL, token secret.File) *LedgerFeed {
	return &LedgerFeed{client: client, url: base.JoinPath("/v1/usage"), token: secret.NewCached(token, asIs)}
}

func asIs(v secret.Value) secret.Value { return v }

// record is what is read of a record of the feed.
type record struct {
	ID           string    `json:"id"`
	Organization string    `json:"organization_id"`
	Pico         string    `json:"cost_pico_usd"`
	RecordedAt   time.Time `json:"recorded_at"`

	Input          int64 `json:"input_tokens"`
	CacheRead      int64 `json:"cache_read_tokens"`
	CacheWrite     int64 `json:"cache_write_tokens"`
	CacheWriteLong int64 `json:"cache_write_long_tokens"`
	ImageInput     int64 `json:"image_input_tokens"`
	AudioInput     int64 `json:"audio_input_tokens"`

	Output      int64 `json:"output_tokens"`
	Reasoning   int64 `json:"reasoning_tokens"`
	ImageOutput int64 `json:"image_output_tokens"`
	AudioOutput int64 `json:"audio_output_tokens"`
}

// entry returns the record as a row of the source. Its moment is when it was recorded, as in reports of spend.
func (r record) entry() (Entry, error) {
	pico, err := strconv.ParseInt(r.Pico, 10, 64)
	if err != nil || pico < 0 || r.ID == "" {
		return Entry{}, fmt.Errorf("record %q: want an id and a cost in pico-USD", r.ID)
	}
	prompt := r.Input + r.CacheRead + r.CacheWrite + r.CacheWriteLong + r.ImageInput + r.AudioInput
	completion := r.Output + r.Reasoning + r.ImageOutput + r.AudioOutput
	return Entry{ID: r.ID, Organization: r.Organization, At: r.RecordedAt.UTC(), Values: []Value{
		{"ledger.calls", "1"},
		{"ledger.completion_tokens", strconv.FormatInt(completion, 10)},
		{"ledger.cost_cents", cents(pico)},
		{"ledger.cost_pico_usd", strconv.FormatInt(pico, 10)},
		{"ledger.prompt_tokens", strconv.FormatInt(prompt, 10)},
		{"ledger.total_tokens", strconv.FormatInt(prompt+completion, 10)},
	}}, nil
}

// cents returns an amount in pico-USD as an exact decimal number of cents.
func cents(pico int64) string {
	const perCent, digits = 10_000_000_000, 10
	if pico%perCent == 0 {
		return strconv.FormatInt(pico/perCent, 10)
	}
	return fmt.Sprintf("%d.%s", pico/perCent, strings.TrimRight(fmt.Sprintf("%0*d", digits, pico%perCent), "0"))
}

// Page implements Pager. The feed's cursor belongs to its filters, which a Cursor never changes.
func (f *LedgerFeed) Page(ctx context.Context, c Cursor, limit int) (Page, error) {
	limit = min(limit, maxFeedPage)
	query := url.Values{"limit": {strconv.Itoa(limit)}, "since": {c.Since.UTC().Format(time.RFC3339Nano)}}
	if !c.Until.IsZero() {
		query.Set("until", c.Until.UTC().Format(time.RFC3339Nano))
	}
	if c.Position != "" {
		query.Set("cursor", c.Position)
	}
	var answer struct {
		Records []record `json:"records"`
		Next    string   `json:"next_cursor"`
	}
	if err := f.get(ctx, query, &answer); err != nil {
		return Page{}, fmt.Errorf("read the gateway's feed: %w", err)
	}
	page := Page{Next: answer.Next, End: len(answer.Records) < limit}
	for _, r := range answer.Records {
		e, err := r.entry()
		if err != nil {
			return Page{}, fmt.Errorf("read the gateway's feed: %w", err)
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

func (f *LedgerFeed) get(ctx context.Context, query url.Values, into any) error {
	token, _, err := f.token.Read()
	if err != nil {
		return fmt.Errorf("ledger_token_file: %w", err)
	}
	address := *f.url
	address.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token.Reveal())
	answer, err := f.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxFeedBytes+1))
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %s", answer.StatusCode, reason(string(text)))
	case len(text) > maxFeedBytes:
		return fmt.Errorf("an answer of more than %d bytes", maxFeedBytes)
	}
	return json.Unmarshal(text, into)
}
