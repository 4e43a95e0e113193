//go:build e2e

package e2e_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// How the hostile organization holds places that all organizations share: it sends events whose checks use as much
// processor time as allowed, and opens more inbox streams than its share.
const (
	holdCheckers, holdStreams = 12, 60
	// holdPause is the pause between two holds of a place, holdFor how long a stream is held.
	holdPause, holdFor = 50 * time.Millisecond, time.Second
	holdType           = "soak.hostile"
)

// setUpHolders registers the event type whose pattern keeps a processor busy, and makes the key for the streams.
func (s *soak) setUpHolders(t *testing.T) {
	t.Helper()
	s.hostile.webhooks.do(t, http.MethodPut, "/v1/event-types/"+holdType, object{"schema": object{"properties": object{
		"s": object{"type": "string", "pattern": "(?:x?[ab]){330}y$"},
	}}}).want(t, http.StatusCreated)
	s.hostile.notifications = s.harness.customer(t, s.hostile.organization, "notifications", "read")
}

// startHolders starts customers that hold places while the hostile traffic is active.
func (s *soak) startHolders(t *testing.T) {
	t.Helper()
	payload := object{"s": strings.Repeat("ab", 32_000)}
	s.customers.start(holdCheckers, func(int) {
		if s.hostile.active.Load() {
			a, err := s.hostile.webhooks.try(t, http.MethodPost, "/v1/events", object{"event_type": holdType, "payload": payload})
			if err == nil && a.status < http.StatusBadRequest {
				t.Errorf("an event that breaks its schema got %d", a.status)
			}
		}
		s.customers.pause(holdPause)
	})
	s.customers.start(1, func(int) {
		if s.hostile.active.Load() {
			s.holdStreams(t)
		}
		s.customers.pause(holdPause)
	})
}

// holdStreams holds many streams of one inbox for a while.
func (s *soak) holdStreams(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), holdFor)
	defer cancel()
	var streams sync.WaitGroup
	for range holdStreams {
		streams.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.hostile.notifications.base+"/product/v1/notifications/inbox/stream?user_id=ann", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header = s.hostile.notifications.header.Clone()
			if response, err := httpClient.Do(r); err == nil { // Otherwise the service was being killed.
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		})
	}
	streams.Wait()
}
