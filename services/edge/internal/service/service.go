// Package service is the client of the services that the role control calls for itself: it reads the events of
// webhook-egress and sends those of the edge, sends notifications by notify, and reads and decides the gateway's approvals.
// Packages alert and approver and the relay of events use it through their interfaces.
package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/secret"
)

const (
	// callTime bounds a call, maxAnswer an answer in bytes: a page of events with 64 KiB of data each.
	callTime, maxAnswer = 5 * time.Second, 16 << 20
	// eventsPath is where webhook-egress takes events and lists them.
	eventsPath = "/v1/house/events"
	// maxRefusal is how many bytes of a refusal are repeated in an error.
	maxRefusal = 256
)

// Client calls webhook-egress and notify. It is safe for concurrent use.
type Client struct {
	transport       http.RoundTripper
	webhook, notify *url.URL
	token           secret.File
}

var (
	_ alert.Feed        = (*Client)(nil)
	_ alert.Notifier    = (*Client)(nil)
	_ houseevent.Sender = (*Client)(nil)
)

// New returns a client of the services at these URLs. The token is read for each call, so that it can be replaced; its
// role is operator, which the events of all organizations need.
func New(transport http.RoundTripper, webhook, notify *url.URL, token secret.File) *Client {
	return &Client{transport, webhook, notify, token}
}

// After implements alert.Feed.
func (c *Client) After(ctx context.Context, organization, cursor string, limit int) ([]alert.Event, error) {
	query := url.Values{"cursor": {cursor}, "limit": {strconv.Itoa(limit)}}
	var page struct {
		Events []struct {
			Cursor       string    `json:"cursor"`
			Organization string    `json:"organization_id"`
			RecordedAt   time.Time `json:"recorded_at"`
			Event        struct {
				ID      string         `json:"id"`
				Type    string         `json:"type"`
				Subject string         `json:"subject"`
				Data    map[string]any `json:"data"`
			} `json:"cloud_event"`
		} `json:"events"`
	}
	to := c.webhook.JoinPath(eventsPath)
	to.RawQuery = query.Encode()
	if _, err := c.call(ctx, http.MethodGet, to, organization, nil, &page); err != nil {
		return nil, fmt.Errorf("events of webhook-egress: %w", err)
	}
	events := make([]alert.Event, len(page.Events))
	for i, e := range page.Events {
		events[i] = alert.Event{
			Cursor: e.Cursor, ID: e.Event.ID, Organization: e.Organization, Type: e.Event.Type, Subject: e.Event.Subject,
			Data: e.Event.Data, RecordedAt: e.RecordedAt,
		}
	}
	return events, nil
}

// source is the source of the edge's events.
const source = "/switchyard/edge"

// Send implements houseevent.Sender.
func (c *Client) Send(ctx context.Context, e houseevent.Event) error {
	body := struct {
		ID         string          `json:"event_id"`
		Type       string          `json:"type"`
		Source     string          `json:"source"`
		Subject    string          `json:"subject"`
		OccurredAt time.Time       `json:"occurred_at"`
		Data       json.RawMessage `json:"data"`
	}{e.ID, e.Type, source, e.Subject, e.OccurredAt.UTC(), e.Data}
	if _, err := c.call(ctx, http.MethodPost, c.webhook.JoinPath(eventsPath), e.Organization, body, nil); err != nil {
		return fmt.Errorf("event to webhook-egress: %w", err)
	}
	return nil
}

// notification is the body of POST /v1/notify.
type notification struct {
	Channels []string `json:"channels"`
	Subject  string   `json:"subject"`
	Message  string   `json:"message"`
	Target   target   `json:"target"`
	Key      string   `json:"idempotency_key"`
}

type target struct {
	User      string `json:"user_id,omitempty"`
	Broadcast bool   `json:"broadcast,omitempty"`
	Email     string `json:"email,omitempty"`
	URL       string `json:"url,omitempty"`
}

// Notify implements alert.Notifier. Notify knows repeats by the key; a rule that was changed meanwhile makes a repeat
// another notification of the same key, which notify refuses.
func (c *Client) Notify(ctx context.Context, n alert.Notification) error {
	body := notification{
		Channels: []string{n.To.Channel}, Subject: n.Title, Message: n.Body, Key: n.Key,
		Target: target{User: n.To.User, Broadcast: n.To.Broadcast, Email: n.To.Email, URL: n.To.URL},
	}
	status, err := c.call(ctx, http.MethodPost, c.notify.JoinPath("/v1/notify"), n.Organization, body, nil)
	switch {
	case err == nil:
		return nil
	case refused(status):
		return fmt.Errorf("notify: %w: %w", err, alert.ErrRefused)
	}
	return fmt.Errorf("notify: %w", err)
}

// refused reports whether a repeat of the same request gets the same answer.
func refused(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false // of the token, or of the moment
	}
	return status >= 400 && status < 500
}

// answered is the error of an answer that is no success.
type answered struct {
	status int
	body   []byte
	wait   string // Retry-After
}

func (e *answered) Error() string {
	return fmt.Sprintf("answered %d: %.*q", e.status, maxRefusal, e.body)
}

// call sends a JSON request for an organization, empty for all, and decodes the answer into into. The status is 0 without
// an answer; the error of one that is no success is an *answered.
func (c *Client) call(ctx context.Context, method string, to *url.URL, organization string, body, into any) (status int, err error) {
	token, err := c.token.Read()
	if err != nil {
		return 0, fmt.Errorf("token: %w", err)
	}
	header := http.Header{"Authorization": {"Bearer " + token.Reveal()}}
	if organization != "" {
		header.Set(caller.HeaderOrganization, organization)
	}
	return c.request(ctx, method, to, header, body, into)
}

// request sends a JSON request with headers.
func (c *Client) request(ctx context.Context, method string, to *url.URL, header http.Header, body, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	header.Set("Content-Type", "application/json")
	request.Header = header
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return 0, err
	case response.StatusCode >= 300:
		return response.StatusCode, &answered{response.StatusCode, answer, response.Header.Get("Retry-After")}
	case into == nil:
		return response.StatusCode, nil
	}
	return response.StatusCode, json.Unmarshal(answer, into)
}
