package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const metricNotification = "notifications_sent"

const (
	reader       = "ann" // whose inbox the demo fills
	inboxTimeout = 10 * time.Second
	// channelTimeout leaves time for a retry, and for Slack's limit of one message a second.
	channelTimeout = 30 * time.Second
)

// channels lists the channels for which a stack of `make run` has a recipient.
var channels = []string{"in_app", "slack", "email", "webhook"}

type record struct {
	NotificationID string    `json:"notification_id"`
	Subject        string    `json:"subject"`
	URL            string    `json:"url"`
	Message        string    `json:"message"`
	Read           bool      `json:"read"`
	CreatedAt      time.Time `json:"created_at"`
}

// sendLog is the outcome of a notification by channel.
type sendLog struct {
	Status   string `json:"status"`
	Channels []struct {
		Channel   string  `json:"channel"`
		Status    string  `json:"status"`
		Attempts  int     `json:"attempts"`
		LastError *string `json:"last_error"`
	} `json:"channels"`
}

type inbox struct {
	Notifications []record `json:"notifications"`
	Unread        int      `json:"unread_count"`
}

func (s *show) notify(ctx context.Context) error {
	const subject, message = "Your order is paid", "It leaves the warehouse tomorrow."
	// Slack needs no address: `make run` has set the organization's own.
	body, _ := json.Marshal(map[string]any{ // strings always marshal
		"channels": channels, "subject": subject, "message": message,
		"target": map[string]string{"user_id": reader, "email": reader + "@example.com", "url": s.env.ReceiverURL + "/hooks/notified"},
	})
	before, err := s.inbox(ctx)
	if err != nil {
		return err
	}
	s.sent("%s to %s: %q", strings.Join(channels, ", "), reader, subject)
	a, err := s.do(ctx, call{
		method: http.MethodPost, url: s.env.EdgeURL + "/product/v1/notifications/send", bearer: s.env.NotificationsKey, body: string(body),
	})
	if err != nil {
		return err
	}
	var accepted struct {
		ID       string   `json:"notification_id"`
		Channels []string `json:"accepted_channels"`
	}
	if err := a.decode(http.StatusAccepted, &accepted); err != nil {
		return err
	}
	s.expected[metricNotification]++
	s.got(a.took, "%d accepted for %s, notification %s", a.status, strings.Join(accepted.Channels, ", "), accepted.ID)

	got, after, err := s.arrived(ctx, accepted.ID)
	if err != nil {
		return err
	}
	s.fact("inbox", "%s: %s %s", s.Strong(got.Subject), got.Message, s.Faint(got.CreatedAt.Local().Format(time.TimeOnly)))
	s.fact("unread", "%d, before it was %d", after.Unread, before.Unread)
	switch {
	case got.Subject != subject || got.Message != message:
		return errors.New("the record isn't what was sent")
	case got.Read:
		return errors.New("it counts as read before it was")
	case after.Unread <= before.Unread: // other clients may be writing to her too
		return fmt.Errorf("the unread count is %d, before it was %d", after.Unread, before.Unread)
	}
	return s.outcomes(ctx, accepted.ID)
}

// outcomes waits until each channel has ended and shows the outcomes.
func (s *show) outcomes(ctx context.Context, id string) error {
	var log sendLog
	err := until(ctx, channelTimeout, "the end of every channel", func(ctx context.Context) (bool, error) {
		log = sendLog{}
		err := s.get(ctx, s.env.NotifyURL+"/v1/notifications/sends/"+id, &log)
		return log.Status != "pending", err
	})
	if err != nil {
		return err
	}
	for _, c := range log.Channels {
		attempts := fmt.Sprintf("%d attempts", c.Attempts)
		if c.Attempts == 1 {
			attempts = "1 attempt"
		}
		s.fact(c.Channel, "%s after %s", c.Status, attempts)
		if c.Status != "delivered" && c.LastError != nil {
			return fmt.Errorf("%s ended as %s: %s", c.Channel, c.Status, *c.LastError)
		}
	}
	if log.Status != "delivered" || len(log.Channels) != len(channels) {
		return fmt.Errorf("the notification ended as %s by %d channels", log.Status, len(log.Channels))
	}
	return nil
}

func (s *show) inbox(ctx context.Context) (inbox, error) {
	var box inbox
	err := s.get(ctx, s.env.NotifyURL+"/v1/notifications?user_id="+reader, &box)
	return box, err
}

// arrived waits until a notification is in the inbox.
func (s *show) arrived(ctx context.Context, id string) (got record, box inbox, err error) {
	err = until(ctx, inboxTimeout, "the notification in the inbox", func(ctx context.Context) (bool, error) {
		var err error
		if box, err = s.inbox(ctx); err != nil {
			return false, err
		}
		i := slices.IndexFunc(box.Notifications, func(r record) bool { return r.NotificationID == id })
		if i >= 0 {
			got = box.Notifications[i]
		}
		return i >= 0, nil
	})
	return got, box, err
}
