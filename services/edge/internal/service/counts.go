package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/meter"
)

// countPage is how many counts a page has at most, as many as a service gives.
const countPage = 1000

// Counts is the calls that a service has counted for customers.
type Counts struct {
	client *Client
	url    *url.URL
}

var _ meter.Feed = (*Counts)(nil)

// Counts returns the counts of the service at a base URL.
func (c *Client) Counts(base *url.URL) *Counts { return &Counts{c, base.JoinPath("/v1/call-counts")} }

// Read implements meter.Feed.
func (c *Counts) Read(ctx context.Context, cursor string) (meter.Page, error) {
	to := *c.url
	to.RawQuery = url.Values{"cursor": {cursor}, "limit": {strconv.Itoa(countPage)}}.Encode()
	var answer struct {
		Counts []struct {
			Organization string            `json:"organization_id"`
			Key          string            `json:"key_id"`
			Metric       string            `json:"metric"`
			Minute       time.Time         `json:"minute"`
			User         string            `json:"user_id"`
			Tags         map[string]string `json:"tags"`
			Calls        int64             `json:"calls"`
		} `json:"counts"`
		Next       string `json:"next_cursor"`
		Incomplete bool   `json:"incomplete"`
	}
	if _, err := c.client.call(ctx, http.MethodGet, &to, "", nil, &answer); err != nil {
		return meter.Page{}, fmt.Errorf("GET %s: %w", c.url.Path, err)
	}
	page := meter.Page{Counts: make([]meter.Count, len(answer.Counts)), Next: answer.Next, More: len(answer.Counts) == countPage, Incomplete: answer.Incomplete}
	for i, row := range answer.Counts {
		tags, err := tagsText(row.Tags)
		if err != nil {
			return meter.Page{}, err
		}
		page.Counts[i] = meter.Count{Count: row.Calls, Counter: meter.Counter{
			Organization: row.Organization, Key: row.Key, Metric: row.Metric, Minute: row.Minute.UTC(), User: row.User, Tags: tags,
		}}
	}
	return page, nil
}

// tagsText returns tags as a counter has them.
func tagsText(tags map[string]string) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	text, err := json.Marshal(tags)
	if err != nil {
		return "", fmt.Errorf("encode tags: %w", err)
	}
	return string(text), nil
}
