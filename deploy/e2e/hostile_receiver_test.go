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
	// recordBound is the maximum size of the record of a delivery's or a send's attempts, in bytes, whatever was answered.
	recordBound = 64 << 10
	// shortHeaders is the number of custom headers of which the value is one letter, which nearly every answer holds.
	shortHeaders = 20
)

// hostileDelivery is a delivery to a receiver that behaves in one way.
type hostileDelivery struct {
	behaviour fault.Behaviour
	webhooks  client
	id        string
}

// receivers delivers to a receiver of every behaviour, with credentials in custom headers. Each delivery must end, and
// its record must be short.
func (ht *hostileTraffic) receivers(t *testing.T) {
	t.Helper()
	var all []hostileDelivery
	for _, b := range fault.Behaviours() {
		all = append(all, ht.deliverTo(t, b, object{"Authorization": "Bearer " + ht.secretOf(b, "bearer"), "X-Shop-Token": ht.secretOf(b, "token")}))
	}
	letters := object{}
	for i := range shortHeaders {
		letters[fmt.Sprint("X-Token-", i)] = []string{"e", "d"}[i%2]
	}
	for _, name := range []string{"repeat_body", "repeat_error", "endless_body"} {
		i := slices.IndexFunc(fault.Behaviours(), func(b fault.Behaviour) bool { return b.Name == name })
		all = append(all, ht.deliverTo(t, fault.Behaviours()[i], letters))
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

// askedToWait reports whether a behaviour asks for a pause that is longer than a test. The service waits for at most a
// day, however long the pause that is asked for.
func askedToWait(b fault.Behaviour) bool { return strings.HasPrefix(b.Name, "retry_after_") }

const longestWait = 25 * time.Hour // a day, and the random part that is added

// settled returns a delivery that has ended or, where the receiver asked for a pause, whose next attempt has a time.
func (d hostileDelivery) settled(t *testing.T) delivery {
	t.Helper()
	if !askedToWait(d.behaviour) {
		return ended(t, d.webhooks, d.id)
	}
	var record delivery
	waitFor(t, waitTimeout, "the first attempt", func() error {
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

// secretOf returns a new secret, for which the stores, logs and answers are searched at the end.
func (ht *hostileTraffic) secretOf(b fault.Behaviour, what string) string {
	secret := "canary-" + unique(what) + runSecret
	knownSecrets.add("a "+what+" that was sent to "+b.Name, secret)
	return secret
}

// deliverTo enqueues a delivery with at most two attempts.
func (ht *hostileTraffic) deliverTo(t *testing.T, b fault.Behaviour, headers object) hostileDelivery {
	t.Helper()
	d := hostileDelivery{behaviour: b, webhooks: ht.service(stack.WebhookEgress, unique("org"))}
	var got accepted
	d.webhooks.post(t, deliveryPath, object{
		"url":        ht.FakeURL(stack.FakeHostileWebhook) + "/hostile/" + b.Name + "/" + unique("r"),
		"event_type": "order.paid", "payload": object{"order": 7}, "max_attempts": 2, "custom_headers": headers,
	}).into(t, http.StatusAccepted, &got)
	d.id = got.ID
	return d
}

// hostileSend is a notification that goes to a hostile third party.
type hostileSend struct {
	behaviour    fault.Behaviour
	organization string
	id           string
}

// pushServices sends to devices at push services of every behaviour.
func (ht *hostileTraffic) pushServices(t *testing.T) {
	t.Helper()
	var all []hostileSend
	for _, b := range fault.Behaviours() {
		organization := unique("org")
		device := ht.hostileBrowser(t, organization, b.Name)
		ht.register(t, organization, device, object{"user_id": "ann"})
		all = append(all, hostileSend{b, organization, ht.push(t, organization, object{"user_id": "ann"})})
	}
	ht.checkSends(t, all)
}

// hostileBrowser returns a subscription at the hostile push service.
func (ht *hostileTraffic) hostileBrowser(t *testing.T, organization, behaviour string) subscriber {
	t.Helper()
	key := ht.service(stack.Notify, organization).get(t, "/v1/push/vapid-public-key").fields(t, http.StatusOK, "public_key")
	var b subscriber
	ht.fake(stack.FakeHostilePush).unrecorded(t, http.MethodPost, "/_subscriptions", object{"application_server_key": key["public_key"]}).into(t, http.StatusCreated, &b)
	knownSecrets.add("an endpoint's path at a hostile push service", strings.TrimPrefix(b.path(t), "/push/"))
	knownSecrets.add("an auth secret", b.Keys["auth"])
	b.Endpoint = strings.Replace(b.Endpoint, "/push/", "/hostile/"+behaviour+"/push/", 1)
	return b
}

// slack sends to incoming webhooks of every behaviour.
func (ht *hostileTraffic) slack(t *testing.T) {
	t.Helper()
	var (
		all   []hostileSend
		rules []rule
		urls  []string
	)
	for _, b := range fault.Behaviours() {
		url, path := ht.hook()
		urls, rules = append(urls, url), append(rules, rule{Match: object{"path": path}, Action: object{"hostile": b.Name}})
	}
	ht.script(t, stack.FakeSlack, rules...)
	for i, b := range fault.Behaviours() {
		organization := unique("org")
		all = append(all, hostileSend{b, organization, ht.send(t, organization, object{
			"channels": []string{"slack"}, "message": "hello", "target": object{"webhook_url": urls[i]},
		})})
	}
	ht.checkSends(t, all)
}

// directWebhooks makes notify post webhooks itself, to receivers of every behaviour. They are signed with the secret
// that the receivers know, which some of the receivers repeat.
func (ht *hostileTraffic) directWebhooks(t *testing.T) {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(ht.State(), "secrets", "webhook-organizations", stack.Organization))
	if err != nil {
		t.Fatal(err)
	}
	var all []hostileSend
	for _, b := range fault.Behaviours() {
		organization := unique("org")
		if err := os.WriteFile(filepath.Join(hostileSecrets, organization), secret, 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, hostileSend{b, organization, ht.send(t, organization, object{
			"channels": []string{"webhook"}, "message": "hello",
			"target": object{"url": ht.FakeURL(stack.FakeHostileWebhook) + "/hostile/" + b.Name + "/" + unique("r")},
		})})
	}
	ht.checkSends(t, all)
}

// checkSends waits for every send, which must end with a known outcome and have a short record.
func (ht *hostileTraffic) checkSends(t *testing.T, all []hostileSend) {
	t.Helper()
	for _, one := range all {
		t.Run(one.behaviour.Name, func(t *testing.T) {
			log := ht.awaitSend(t, one)
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
			made := ht.service(stack.Notify, one.organization).get(t, sendsPath+one.id+"?limit=200").want(t, http.StatusOK)
			if len(made.body) > recordBound {
				t.Errorf("the record is %d bytes long", len(made.body))
			}
		})
	}
}

// awaitSend returns the log of a send that has ended or, where the third party asked for a pause, has had its first
// attempt.
func (ht *hostileTraffic) awaitSend(t *testing.T, one hostileSend) (log sendLog) {
	t.Helper()
	if !askedToWait(one.behaviour) {
		return ht.ended(t, one.organization, one.id)
	}
	waitFor(t, waitTimeout, "the first attempt", func() error {
		ht.service(stack.Notify, one.organization).get(t, sendsPath+one.id+"?limit=200").into(t, http.StatusOK, &log)
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
