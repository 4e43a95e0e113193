package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const metricDelivery = "deliveries"

const deliveryTimeout = 30 * time.Second

// arrival is a request as the receiver recorded it.
type arrival struct {
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Headers http.Header `json:"headers"`
	Body    string      `json:"body"`
}

func (s *show) deliver(ctx context.Context) error {
	payload := fmt.Sprintf(`{"order":"A-%d","total_cents":4200,"currency":"EUR"}`, time.Now().UnixMilli())
	target := s.env.ReceiverURL + "/hooks/demo"
	body, _ := json.Marshal(map[string]any{ // strings and checked JSON always marshal
		"url": target, "event_type": "order.paid", "payload": json.RawMessage(payload),
	})
	s.sent("order.paid %s", payload)
	s.fact("to", "%s", target)
	begun := time.Now()
	a, err := s.do(ctx, call{
		method: http.MethodPost, url: s.env.EdgeURL + "/product/v1/webhooks/deliveries", bearer: s.env.WebhooksKey, body: string(body),
	})
	if err != nil {
		return err
	}
	var accepted struct {
		ID     string `json:"delivery_id"`
		Status string `json:"status"`
	}
	if err := a.decode(http.StatusAccepted, &accepted); err != nil {
		return err
	}
	s.expected[metricDelivery]++
	s.got(a.took, "%d %s, delivery %s", a.status, accepted.Status, accepted.ID)
	if err := s.follow(ctx, accepted.ID, accepted.Status, begun); err != nil {
		return err
	}
	return s.inspect(ctx, accepted.ID, payload)
}

// ended lists the final statuses of a delivery.
var ended = []string{"delivered", "failed", "cancelled", "expired"}

// follow waits until a delivery has ended and shows its statuses on the way.
func (s *show) follow(ctx context.Context, id, status string, begun time.Time) error {
	resource := s.env.WebhookEgressURL + "/v1/deliveries/" + url.PathEscape(id)
	way := []string{status}
	err := until(ctx, deliveryTimeout, "the end of the delivery", func(ctx context.Context) (bool, error) {
		var record struct {
			Status    string  `json:"status"`
			LastError *string `json:"last_error"`
		}
		if err := s.get(ctx, resource, &record); err != nil {
			return false, err
		}
		if way[len(way)-1] != record.Status {
			way = append(way, record.Status)
		}
		return slices.Contains(ended, record.Status), nil
	})
	s.fact("status", "%s %s", strings.Join(way, " → "), s.Faint("after "+span(time.Since(begun))))
	if err != nil {
		return err
	}
	if err := s.attempts(ctx, resource); err != nil {
		return err
	}
	if last := way[len(way)-1]; last != "delivered" {
		return fmt.Errorf("the delivery ended as %s", last)
	}
	return nil
}

func (s *show) attempts(ctx context.Context, resource string) error {
	var page struct {
		Attempts []struct {
			Number       int     `json:"number"`
			Outcome      string  `json:"outcome"`
			ResponseCode *int    `json:"response_code"`
			RemoteIP     *string `json:"remote_ip"`
			Error        *string `json:"error"`
			TotalMs      float64 `json:"total_ms"`
		} `json:"attempts"`
	}
	if err := s.get(ctx, resource+"/attempts", &page); err != nil {
		return err
	}
	if len(page.Attempts) == 0 {
		return errors.New("no attempt is on record")
	}
	for _, a := range page.Attempts {
		result := "no answer"
		if a.ResponseCode != nil {
			result = strconv.Itoa(*a.ResponseCode)
		}
		if a.Error != nil {
			result += " " + *a.Error
		}
		s.fact(fmt.Sprintf("attempt %d", a.Number), "%s, answer %s in %.1f ms", a.Outcome, result, a.TotalMs)
	}
	return nil
}

// inspect reads what the receiver got and verifies it as a customer would.
func (s *show) inspect(ctx context.Context, id, payload string) error {
	a, err := s.do(ctx, call{method: http.MethodGet, url: s.env.ReceiverURL + "/_arrivals?id=" + url.QueryEscape(id)})
	if err != nil {
		return err
	}
	var page struct {
		Arrivals []arrival `json:"arrivals"`
	}
	if err := a.decode(http.StatusOK, &page); err != nil {
		return err
	}
	if len(page.Arrivals) == 0 {
		return errors.New("the receiver got no request with this delivery id")
	}
	last := page.Arrivals[len(page.Arrivals)-1]
	s.fact("arrived", "%s %s with %s", last.Method, last.Path, last.Body)
	for _, name := range signedHeaders {
		if value := last.Headers.Get(name); value != "" {
			s.fact("", "%s: %s", name, value)
		}
	}
	if last.Body != payload {
		return errors.New("the body isn't the payload's bytes")
	}
	if err := verify(s.env.WebhookSecret, last.Headers, last.Body, time.Now()); err != nil {
		return err
	}
	s.Good("the signature holds: HMAC-SHA256 of \"<timestamp>.<body>\" with WEBHOOK_SECRET, computed here")
	return nil
}

// signedHeaders lists the headers of a delivery that the demo shows.
var signedHeaders = []string{
	"X-Webhook-Id", "X-Webhook-Event", "X-Webhook-Attempt", "X-Webhook-Timestamp", "X-Webhook-Signature",
	"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Traceparent", "User-Agent",
}

// signatureAge is the maximum age of a signature that a receiver accepts.
const signatureAge = 5 * time.Minute

// verify checks a delivery as its receiver must: it compares the digest in constant time and refuses a replay of an
// old delivery.
func verify(secret string, headers http.Header, body string, now time.Time) error {
	timestamp := headers.Get("X-Webhook-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("X-Webhook-Timestamp is %q, not a number of seconds", timestamp)
	}
	given, err := hex.DecodeString(headers.Get("X-Webhook-Signature"))
	if err != nil {
		return errors.New("X-Webhook-Signature is not a hex digest")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "." + body))
	if !hmac.Equal(mac.Sum(nil), given) {
		return errors.New("the signature doesn't match the body and the secret")
	}
	if age := now.Sub(time.Unix(seconds, 0)).Abs(); age > signatureAge {
		return fmt.Errorf("the signature is %s old", age)
	}
	return nil
}
