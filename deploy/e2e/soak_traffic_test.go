//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// outcome is a call's result as the customer sees it.
type outcome int

const (
	succeeded outcome = iota // a whole answer with 2xx
	refused                  // a whole answer that refuses
	unknown                  // the answer broke off or never came, or the edge got none from the service
)

// completionCall is a completion that a customer asked for.
type completionCall struct {
	outcome outcome
	cents   float64 // the cost that the answer states
	stated  bool    // whether the answer states a cost
}

// send is a notification that was accepted.
type send struct {
	user, mark string
	channels   []string
}

// The numbers of customers that ask for completions, which is the maximum that the gateway has in flight.
const (
	soakCompleters = 4
	soakEmbedders  = 1
	soakViewers    = 2
)

const (
	embeddingsRoute = "/product/v1/ai/openai/v1/embeddings"
	visionRoute     = "/product/v1/ai/vision"
)

// begin starts the customers. Each makes one kind of call after the other, with a random pause between two.
func (s *soak) begin(t *testing.T) {
	t.Helper()
	number := uint64(0)
	for _, kind := range []struct {
		customers int
		pause     time.Duration // average
		call      func(*testing.T, *rand.Rand)
	}{
		{soakCompleters, 50 * time.Millisecond, s.chat},
		{soakEmbedders, 80 * time.Millisecond, s.embed},
		{soakViewers, 80 * time.Millisecond, s.view},
		{1, 50 * time.Millisecond, s.openInbox},
		{1, 50 * time.Millisecond, s.openNotices},
		{4, 100 * time.Millisecond, s.deliver},
		{1, 300 * time.Millisecond, s.emit},
		{2, 250 * time.Millisecond, s.notify},
		{1, 300 * time.Millisecond, s.markRead},
	} {
		var randoms []*rand.Rand
		for range kind.customers {
			number++
			randoms = append(randoms, rand.New(rand.NewPCG(s.seed, number)))
		}
		s.customers.start(kind.customers, func(customer int) {
			random := randoms[customer]
			kind.call(t, random)
			s.customers.pause(time.Duration(random.Int64N(int64(2 * kind.pause))))
		})
	}
}

// next returns a number that no other call has.
func (s *soak) next() int64 { return s.number.Add(1) }

// giveUp records that a customer got no answer.
func (s *soak) giveUp(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gaveUp++; s.firstReason == nil {
		s.firstReason = err
	}
}

// retry makes a call until it succeeds, as a good client does, for at most soakTimeout.
func (s *soak) retry(t *testing.T, what string, try func() (outcome, error)) {
	t.Helper()
	err := await(t.Context(), soakTimeout, func() error {
		outcome, err := try()
		if outcome == succeeded {
			return nil
		}
		return err
	})
	if err != nil {
		s.giveUp(fmt.Errorf("%s: %w", what, err))
	}
}

func (s *soak) chat(t *testing.T, random *rand.Rand) {
	t.Helper()
	models := []object{
		{"model": soakOpenAI.model},
		{"model": soakAnthropic.model},
		{"model": soakOwn.model, "byok": object{"mode": "require"}},
	}
	body := models[random.IntN(len(models))].with(object{"stream": random.IntN(2) == 0})
	s.complete(t, chatRoute, func(mark string) object {
		return body.with(object{"messages": say("Tell me about " + mark + ", please, in some words")})
	})
}

func (s *soak) embed(t *testing.T, _ *rand.Rand) {
	t.Helper()
	s.complete(t, embeddingsRoute, func(mark string) object {
		return object{"model": soakOpenAI.model, "dimensions": 8, "encoding_format": "float", "input": mark}
	})
}

// view asks about an image that the gateway has to fetch.
func (s *soak) view(t *testing.T, _ *rand.Rand) {
	t.Helper()
	s.complete(t, visionRoute, func(mark string) object {
		return object{"model": soakUnsighted.model, "prompt": mark, "image": object{"url": s.harness.FakeURL(stack.FakeProvider) + "/images/ff0000.png"}}
	})
}

// marked matches the id of a call in its text.
var marked = regexp.MustCompile(`\[(call-\d+)\]`)

// complete asks for a completion until it has a whole one. Each try is a call of its own, with an id that is also in
// the text which the provider gets.
func (s *soak) complete(t *testing.T, path string, body func(mark string) object) {
	t.Helper()
	s.retry(t, path, func() (outcome, error) {
		id := fmt.Sprint("call-", s.next())
		request := body("[" + id + "]")
		phase, begun := s.latencies.currentPhase(), time.Now()
		a, err := s.ai.with("X-Request-Id", id).try(t, http.MethodPost, path, request)
		c := completionCall{outcome: s.billed["llm_requests"].note(a, err)}
		if c.outcome == succeeded && request["stream"] == true && !wholeStream(a.body) {
			c.outcome = unknown
			s.billed["llm_requests"].succeeded.Add(-1)
			s.billed["llm_requests"].unknown.Add(1)
		}
		if c.outcome == succeeded {
			s.latencies.record(latencyKind(request), phase, time.Since(begun))
			c.cents, c.stated = statedCents(a)
		}
		s.mu.Lock()
		s.calls[id] = c
		s.mu.Unlock()
		return c.outcome, fmt.Errorf("answered %d: %s, %w", a.status, shorten(a.body), err)
	})
}

func latencyKind(request object) string {
	switch {
	case request["stream"] == true:
		return streamKind
	case request["model"] == soakUnsighted.model:
		return imageKind
	}
	return completionKind
}

func wholeStream(body []byte) bool {
	return bytes.HasSuffix(bytes.TrimSpace(body), []byte("data: [DONE]")) && !bytes.Contains(body, []byte("event: error"))
}

var costField = regexp.MustCompile(`"cost_cents":([0-9.eE+-]+)`)

func statedCents(a answer) (float64, bool) {
	found := costField.FindSubmatch(a.body)
	if found == nil {
		return 0, false
	}
	cents, err := strconv.ParseFloat(string(found[1]), 64)
	return cents, err == nil
}

// note counts a call and returns its outcome.
func (c *tally) note(a answer, err error) outcome {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused // the request was never sent
	case err != nil, a.status == http.StatusBadGateway: // The service may have been killed after it made the call.
		c.unknown.Add(1)
		return unknown
	case a.status/100 == 2:
		c.succeeded.Add(1)
		return succeeded
	}
	return refused
}

// callUntilAccepted makes a call that may be repeated until it succeeds, and reads its answer.
func (s *soak) callUntilAccepted(t *testing.T, metric string, c client, method, path string, body any, into any) (ok bool) {
	t.Helper()
	s.retry(t, path, func() (outcome, error) {
		phase, begun := s.latencies.currentPhase(), time.Now()
		a, err := c.try(t, method, path, body)
		outcome := s.billed[metric].note(a, err)
		if outcome == succeeded {
			s.latencies.record(postKind, phase, time.Since(begun))
			err = json.Unmarshal(a.body, into)
			ok = err == nil
			if err != nil {
				s.giveUp(err)
			}
		}
		return outcome, fmt.Errorf("answered %d: %s, %w", a.status, shorten(a.body), err)
	})
	return ok
}

func (s *soak) deliver(t *testing.T, _ *rand.Rand) {
	t.Helper()
	var got accepted
	body := s.direct.deliver(object{"idempotency_key": fmt.Sprint("delivery-", s.next())})
	if s.callUntilAccepted(t, "deliveries", s.webhooks, http.MethodPost, deliveryRoute, body, &got) {
		s.mu.Lock()
		s.deliveries[got.ID] = true
		s.mu.Unlock()
	}
}

// emit publishes an event that goes to three endpoints.
func (s *soak) emit(t *testing.T, _ *rand.Rand) {
	t.Helper()
	var got eventAnswer
	body := object{"event_type": "order.paid", "payload": object{"order": 7}, "idempotency_key": fmt.Sprint("event-", s.next())}
	if !s.callUntilAccepted(t, "", s.egress, http.MethodPost, eventPath, body, &got) {
		return
	}
	if got.Matched != 3 || len(got.Deliveries) != 3 {
		s.giveUp(fmt.Errorf("event %s matched %d endpoints", got.ID, got.Matched))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range got.Deliveries {
		s.deliveries[d.Delivery] = true
	}
}

// notify sends to a user's inbox and by a random choice of the other channels.
func (s *soak) notify(t *testing.T, random *rand.Rand) {
	t.Helper()
	n := s.next()
	one := send{user: soakUser(random.IntN(soakUsers)), mark: fmt.Sprintf("[send-%d]", n), channels: []string{"in_app"}}
	for _, channel := range []string{"slack", "email", "webhook", "web_push"} {
		if random.IntN(2) == 0 {
			one.channels = append(one.channels, channel)
		}
	}
	target := object{"user_id": one.user, "webhook_url": fmt.Sprint(s.harness.FakeURL(stack.FakeSlack), s.hook, n), "email": fmt.Sprintf("send-%d@example.com", n), "url": s.notified.url(), "payload": object{"mark": one.mark}}
	body := object{"channels": one.channels, "subject": "Order", "message": "About " + one.mark, "target": target, "idempotency_key": fmt.Sprint("send-", n)}
	var got struct {
		ID       string   `json:"notification_id"`
		Channels []string `json:"accepted_channels"`
	}
	if !s.callUntilAccepted(t, "notifications_sent", s.notifications, http.MethodPost, sendRoute, body, &got) {
		return
	}
	if len(got.Channels) != len(one.channels) {
		s.giveUp(fmt.Errorf("send %s: accepted for %v of %v", got.ID, got.Channels, one.channels))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends[got.ID] = one
}

// markRead marks a random one of a user's newest unread records as read.
func (s *soak) markRead(t *testing.T, random *rand.Rand) {
	t.Helper()
	var page inboxPage
	if !s.callUntilAccepted(t, "", s.inbox, http.MethodGet, inboxPath+"?unread=true&limit=20&user_id="+soakUser(random.IntN(soakUsers)), nil, &page) || len(page.Records) == 0 {
		return
	}
	id := page.Records[random.IntN(len(page.Records))].ID
	var marked struct{}
	if s.callUntilAccepted(t, "", s.inbox, http.MethodPut, inboxPath+"/"+id+"/read", nil, &marked) {
		s.mu.Lock()
		s.read[id] = true
		s.mu.Unlock()
	}
}
