//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/fault"
)

const (
	// recordBound is what the record of a delivery's or a send's attempts may hold, in
	// bytes, whatever was answered.
	recordBound = 64 << 10
	// shortHeaders are custom headers of one letter, which nearly every answer holds.
	shortHeaders = 20
)

// hostileDelivery is a delivery to a receiver that behaves in one way.
type hostileDelivery struct {
	behaviour fault.Behaviour
	webhooks  client
	id        string
}

// receivers delivers to a receiver of every behaviour, with credentials in custom
// headers, and wants each delivery to come to an end and its record to be short.
func (s *siege) receivers(t *testing.T) {
	t.Helper()
	var all []hostileDelivery
	for _, b := range fault.Behaviours() {
		all = append(all, s.deliverTo(t, b, object{"Authorization": "Bearer " + s.secretOf(b, "bearer"), "X-Shop-Token": s.secretOf(b, "token")}))
	}
	letters := object{}
	for i := range shortHeaders {
		letters[fmt.Sprint("X-Token-", i)] = []string{"e", "d"}[i%2]
	}
	for _, name := range []string{"repeat_body", "repeat_error", "endless_body"} {
		i := slices.IndexFunc(fault.Behaviours(), func(b fault.Behaviour) bool { return b.Name == name })
		all = append(all, s.deliverTo(t, fault.Behaviours()[i], letters))
	}
	for _, d := range all {
		t.Run(d.behaviour.Name, func(t *testing.T) {
			record := d.settled(t)
			if d.behaviour.Outcome == fault.Served && record.Status != "delivered" {
				t.Errorf("a sound answer: %s after %d attempts", record.Status, record.Attempts)
			}
			made := d.webhooks.get(t, deliveryPath+"/"+d.id+"/attempts").want(t, http.StatusOK)
			if len(made.body) > recordBound {
				t.Errorf("the record of %d attempts is %d bytes long", record.Attempts, len(made.body))
			}
			known := attempts(t, d.webhooks, d.id)
			if len(known) != record.Attempts || len(known) == 0 {
				t.Errorf("%d attempts are counted, %d are listed", record.Attempts, len(known))
			}
			for _, a := range known {
				if a.Outcome == "" {
					t.Errorf("attempt %d has no outcome", a.Number)
				}
			}
		})
	}
}

// askedToWait reports whether a behaviour asks to be left alone for longer than a test
// lasts: a day is kept at most, of whatever is asked.
func askedToWait(b fault.Behaviour) bool { return strings.HasPrefix(b.Name, "retry_after_") }

const longestWait = 25 * time.Hour // a day and what is added by chance

// settled waits for the end of a delivery, or for the time of its next attempt where
// the receiver asked for one.
func (d hostileDelivery) settled(t *testing.T) delivery {
	t.Helper()
	if !askedToWait(d.behaviour) {
		return ended(t, d.webhooks, d.id)
	}
	var record delivery
	waitFor(t, patience, "the first attempt", func() error {
		d.webhooks.get(t, deliveryPath+"/"+d.id).into(t, http.StatusOK, &record)
		if record.Attempts == 0 {
			return errors.New(record.Status)
		}
		return nil
	})
	if record.NextAttemptAt == nil {
		return record
	}
	if next, err := time.Parse(time.RFC3339, *record.NextAttemptAt); err != nil || time.Until(next) > longestWait {
		t.Errorf("the next attempt is at %s, %v", *record.NextAttemptAt, err)
	}
	return record
}

// secretOf is a secret that is looked for everywhere at the end.
func (s *siege) secretOf(b fault.Behaviour, what string) string {
	secret := "canary-" + unique(what) + runSecret
	canaries.add("a "+what+" that was sent to "+b.Name, secret)
	return secret
}

// deliverTo begins a delivery of two attempts at most.
func (s *siege) deliverTo(t *testing.T, b fault.Behaviour, headers object) hostileDelivery {
	t.Helper()
	d := hostileDelivery{behaviour: b, webhooks: s.service(stack.WebhookEgress, unique("org"))}
	var got accepted
	d.webhooks.post(t, deliveryPath, object{
		"url":        s.FakeURL(stack.FakeHostileWebhook) + "/hostile/" + b.Name + "/" + unique("r"),
		"event_type": "order.paid", "payload": object{"order": 7}, "max_attempts": 2, "custom_headers": headers,
	}).into(t, http.StatusAccepted, &got)
	d.id = got.ID
	return d
}

// hostileSend is a notification that a hostile third party takes.
type hostileSend struct {
	behaviour    fault.Behaviour
	organization string
	id           string
}

// pushServices pushes to devices of push services of every behaviour.
func (s *siege) pushServices(t *testing.T) {
	t.Helper()
	var all []hostileSend
	for _, b := range fault.Behaviours() {
		organization := unique("org")
		device := s.hostileBrowser(t, organization, b.Name)
		s.enrol(t, organization, device, object{"user_id": "ann"})
		all = append(all, hostileSend{b, organization, s.push(t, organization, object{"user_id": "ann"})})
	}
	s.awaitSends(t, all)
}

// hostileBrowser subscribes at the hostile push service.
func (s *siege) hostileBrowser(t *testing.T, organization, behaviour string) subscriber {
	t.Helper()
	key := s.service(stack.Notify, organization).get(t, "/v1/push/vapid-public-key").fields(t, http.StatusOK, "public_key")
	var b subscriber
	s.fake(stack.FakeHostilePush).unrecorded(t, http.MethodPost, "/_subscriptions", object{"application_server_key": key["public_key"]}).into(t, http.StatusCreated, &b)
	canaries.add("an endpoint's path at a hostile push service", strings.TrimPrefix(b.path(t), "/push/"))
	canaries.add("an auth secret", b.Keys["auth"])
	b.Endpoint = strings.Replace(b.Endpoint, "/push/", "/hostile/"+behaviour+"/push/", 1)
	return b
}

// slack sends by incoming webhooks of every behaviour.
func (s *siege) slack(t *testing.T) {
	t.Helper()
	var (
		all   []hostileSend
		rules []rule
		urls  []string
	)
	for _, b := range fault.Behaviours() {
		url, path := s.hook()
		urls, rules = append(urls, url), append(rules, rule{Match: object{"path": path}, Action: object{"hostile": b.Name}})
	}
	s.script(t, stack.FakeSlack, rules...)
	for i, b := range fault.Behaviours() {
		organization := unique("org")
		all = append(all, hostileSend{b, organization, s.send(t, organization, object{
			"channels": []string{"slack"}, "message": "hello", "target": object{"webhook_url": urls[i]},
		})})
	}
	s.awaitSends(t, all)
}

// directWebhooks has notify post webhooks itself, to receivers of every behaviour. They
// are signed with the secret that the receivers know, which some of them repeat.
func (s *siege) directWebhooks(t *testing.T) {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(s.State(), "secrets", "webhook-organizations", stack.Organization))
	if err != nil {
		t.Fatal(err)
	}
	var all []hostileSend
	for _, b := range fault.Behaviours() {
		organization := unique("org")
		if err := os.WriteFile(filepath.Join(besiegedSecrets, organization), secret, 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, hostileSend{b, organization, s.send(t, organization, object{
			"channels": []string{"webhook"}, "message": "hello",
			"target": object{"url": s.FakeURL(stack.FakeHostileWebhook) + "/hostile/" + b.Name + "/" + unique("r")},
		})})
	}
	s.awaitSends(t, all)
}

// awaitSends wants every send to end with a known outcome, in a short record.
func (s *siege) awaitSends(t *testing.T, all []hostileSend) {
	t.Helper()
	for _, one := range all {
		t.Run(one.behaviour.Name, func(t *testing.T) {
			log := s.settledSend(t, one)
			for _, c := range log.Channels {
				if c.Attempts == 0 {
					t.Errorf("%s: an end without an attempt: %s", c.Channel, log.summary())
				}
				if known := c.Outcome != nil && *c.Outcome != ""; !known && !askedToWait(one.behaviour) {
					t.Errorf("%s: an end without an outcome: %s", c.Channel, log.summary())
				}
				if one.behaviour.Outcome == fault.Served && c.Status != "delivered" {
					t.Errorf("%s: a sound answer: %s", c.Channel, log.summary())
				}
			}
			made := s.service(stack.Notify, one.organization).get(t, sendsPath+one.id+"?limit=200").want(t, http.StatusOK)
			if len(made.body) > recordBound {
				t.Errorf("the record is %d bytes long", len(made.body))
			}
		})
	}
}

// settledSend waits for the end of a send, or for its first attempt where the third
// party asked for a pause.
func (s *siege) settledSend(t *testing.T, one hostileSend) (log sendLog) {
	t.Helper()
	if !askedToWait(one.behaviour) {
		return s.ended(t, one.organization, one.id)
	}
	waitFor(t, patience, "the first attempt", func() error {
		s.service(stack.Notify, one.organization).get(t, sendsPath+one.id+"?limit=200").into(t, http.StatusOK, &log)
		if len(log.Attempts) == 0 {
			return errors.New(log.summary())
		}
		return nil
	})
	for _, a := range log.Attempts {
		if a.After != nil && *a.After > longestWait.Seconds() {
			t.Errorf("%s: the next attempt in %v s", a.Channel, *a.After)
		}
	}
	return log
}
