package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/billing"
	"switchyard.dev/services/platform/feed"
)

// Charges is the gateway's billed feed.
type Charges struct {
	client *Client
	url    *url.URL
}

var _ billing.Source = (*Charges)(nil)

// Charges returns the billed feed of the gateway at a base URL.
func (c *Client) Charges(base *url.URL) *Charges { return &Charges{c, base.JoinPath("/v1/charges")} }

// charge is a record as the gateway writes it.
type charge struct {
	ID           string    `json:"id"`
	Position     string    `json:"position"`
	Organization string    `json:"organization_id"`
	Key          string    `json:"key_id"`
	Prompt       int64     `json:"prompt_tokens"`
	Completion   int64     `json:"completion_tokens"`
	Pico         int64     `json:"cost_pico_usd,string"`
	StartedAt    time.Time `json:"started_at"`
	RecordedAt   time.Time `json:"recorded_at"`
}

// Read implements billing.Source.
func (c *Charges) Read(ctx context.Context, q billing.Query) (billing.Page, error) {
	to := *c.url
	to.RawQuery = chargesQuery(q).Encode()
	var answer struct {
		Charges []charge `json:"charges"`
		Next    string   `json:"next"`
	}
	if _, err := c.client.call(ctx, http.MethodGet, &to, "", nil, &answer); err != nil {
		return billing.Page{}, fmt.Errorf("GET %s: %w", c.url.Path, err)
	}
	page := billing.Page{Records: make([]billing.Record, len(answer.Charges)), More: len(answer.Charges) == q.Limit}
	last := q.After
	for i := range answer.Charges {
		r, err := answer.Charges[i].record(q, last)
		if err != nil {
			return billing.Page{}, fmt.Errorf("GET %s: charge %d: %w", c.url.Path, i, err)
		}
		page.Records[i], last = r, r.Position
	}
	var ok bool
	if page.Next, ok = feed.Parse(answer.Next); !ok || page.Next.Compare(last) < 0 {
		return billing.Page{}, fmt.Errorf("GET %s: %w: next", c.url.Path, errOrder)
	}
	return page, nil
}

func chargesQuery(q billing.Query) url.Values {
	values := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	for name, text := range map[string]string{"after": q.After.String(), "organization_id": q.Organization} {
		if text != "" {
			values.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return values
}

var (
	errOrder  = errors.New("a position that is not behind the one before")
	errOther  = errors.New("it is another organization's")
	errAmount = errors.New("a negative amount")
)

// record returns the charge as a record behind the last one.
func (c *charge) record(q billing.Query, last feed.Position) (billing.Record, error) {
	position, ok := feed.Parse(c.Position)
	switch {
	case !ok || position.Compare(last) <= 0:
		return billing.Record{}, errOrder
	case q.Organization != "" && c.Organization != q.Organization:
		return billing.Record{}, errOther
	case c.Prompt < 0 || c.Completion < 0 || c.Pico < 0:
		return billing.Record{}, errAmount
	}
	return billing.Record{
		ID: c.ID, Organization: c.Organization, Key: c.Key, StartedAt: c.StartedAt, RecordedAt: c.RecordedAt,
		Prompt: c.Prompt, Completion: c.Completion, Pico: c.Pico, Position: position,
	}, nil
}
