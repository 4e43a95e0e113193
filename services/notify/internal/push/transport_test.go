package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/notify/internal/webpush/webpushtest"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canaryPath = "canary-endpoint-path"

// world is a transport with one device and a push service that answers on demand.
type world struct {
	transport *Transport
	sender    *Sender
	device    Sealed
	keys      webpushtest.Keys
	answer    webpush.Answer
	err       error

	mu      sync.Mutex
	known   bool
	broken  error // of the store
	calls   []string
	senders []*webpush.Sender
	texts   [][]byte
	pushed  []webpush.Key
}

func newWorld(t *testing.T) *world {
	t.Helper()
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "notify")
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := webpush.NewHosts(webpush.KnownHosts, nil, url.Parse)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{known: true, keys: webpushtest.NewKeys(t), answer: webpush.Answer{Verdict: webpush.Accepted, Status: 201}}
	subscription, err := Subscribe(hosts, "https://fcm.googleapis.com/fcm/send/"+canaryPath, webpushtest.BrowserKeys(t, []byte("auth-of-16-bytes")))
	if err != nil {
		t.Fatal(err)
	}
	digest := subscription.Endpoint().Digest()
	w.device = Sealed{
		ID: uuid.New(), Organization: "acme", Digest: digest[:], Text: box.Seal(subscription.Bytes(), owner("acme", digest[:])),
		KeyID: w.keys.Keys()[1].ID(), Status: Active, User: "ann", Revision: 7,
	}
	w.transport = NewTransport(w, w.keys, box, w, 4, NewRejections(nil, testkit.Logger(t)))
	w.sender = NewSender(hosts, w.keys, Limits{Content: 600})
	return w
}

func (w *world) note(format string, args ...any) error {
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
	return w.broken
}

func (w *world) Device(context.Context, uuid.UUID) (Sealed, error) {
	if !w.known {
		return Sealed{}, ErrNotFound
	}
	return w.device, w.broken
}

func (w *world) Remove(_ context.Context, _ uuid.UUID, revision int64) error {
	return w.note("remove %d", revision)
}

func (w *world) Quarantine(_ context.Context, _ uuid.UUID, revision int64) error {
	return w.note("quarantine %d", revision)
}

func (w *world) Push(_ context.Context, key webpush.Key, from *webpush.Sender, _ webpush.Subscription, m webpush.Message) (webpush.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.senders, w.texts, w.pushed = append(w.senders, from), append(w.texts, m.Text), append(w.pushed, key)
	return w.answer, w.err
}

// task is what an engine would ask for after a message was accepted.
func (w *world) task(t *testing.T, target channel.Target) channel.Task {
	t.Helper()
	prepared, err := w.sender.Prepare(t.Context(), channel.Message{Organization: "acme", Text: "hello", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return channel.Task{Channel: channel.WebPush, Notification: uuid.New(), Subscription: &w.device.ID, Work: prepared.Body, Number: 1}
}

func TestDeliver(t *testing.T) {
	type answer = webpush.Answer
	tests := map[string]struct {
		answer answer
		want   channel.Outcome
		calls  []string
	}{
		"accepted":   {answer{Verdict: webpush.Accepted, Status: 201}, channel.Delivered(201), nil},
		"gone":       {answer{Verdict: webpush.Gone, Status: 410}, channel.Removed(ClassGone, 410), []string{"remove 7"}},
		"mismatch":   {answer{Verdict: webpush.Mismatch, Status: 403}, channel.Denied(ClassMismatch, 403, true), []string{"quarantine 7"}},
		"bad token":  {answer{Verdict: webpush.Unauthorized, Status: 401, Reason: "http_401"}, channel.Outcome{Kind: channel.Auth, Class: channel.ClassCredential, Status: 401, Detail: "http_401"}, nil},
		"too many":   {answer{Verdict: webpush.Retry, Status: 429, Reason: "http_429", RetryAfter: time.Minute}, channel.Outcome{Kind: channel.RetryAfter, Class: channel.ClassRate, Status: 429, After: time.Minute, Detail: "http_429"}, nil},
		"broken":     {answer{Verdict: webpush.Retry, Status: 503, Reason: "http_503"}, channel.Outcome{Kind: channel.RetryAfter, Class: channel.ClassServer, Status: 503, Detail: "http_503"}, nil},
		"nobody":     {answer{Verdict: webpush.Retry, Reason: webpush.ReasonConnection}, channel.Outcome{Kind: channel.RetryAfter, Class: channel.ClassConnect, HostFailed: true}, nil},
		"no answer":  {answer{Verdict: webpush.Lost, Reason: webpush.ReasonTimeout}, channel.Outcome{Kind: channel.Unknown, Class: channel.ClassTimeout, HostFailed: true}, nil},
		"too large":  {answer{Verdict: webpush.Refused, Status: 413, Reason: "http_413"}, channel.Failed(ClassTooLarge, 413, "http_413"), nil},
		"bad":        {answer{Verdict: webpush.Refused, Status: 400, Reason: "http_400"}, channel.Failed(channel.ClassClient, 400, "http_400"), nil},
		"moved":      {answer{Verdict: webpush.Refused, Status: 301, Reason: "http_301"}, channel.Failed(channel.ClassRedirect, 301, "http_301"), nil},
		"not public": {answer{Verdict: webpush.Refused, Reason: "target_not_allowed: address"}, channel.Unsent(channel.Failed(channel.ClassTarget, 0, "target_not_allowed: address")), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.answer = tt.answer
			got := w.transport.Deliver(t.Context(), w.task(t, channel.Target{User: "ann"}))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.calls, w.calls); diff != "" {
				t.Errorf("the device (-want +got):\n%s", diff)
			}
			if w.pushed[0].ID() != w.device.KeyID {
				t.Error("signed with another key than the subscription's")
			}
		})
	}
}

func TestDeliverRefusesBeforeItPushes(t *testing.T) {
	tests := map[string]struct {
		change func(w *world, task *channel.Task)
		kind   channel.Kind
		class  channel.Class
	}{
		"deleted":          {func(w *world, _ *channel.Task) { w.known = false }, channel.Permanent, ClassMissing},
		"quarantined":      {func(w *world, _ *channel.Task) { w.device.Status = Quarantined }, channel.Permanent, ClassQuarantined},
		"another user's":   {func(w *world, _ *channel.Task) { w.device.User = "bob" }, channel.Permanent, ClassMissing},
		"no user's":        {func(w *world, _ *channel.Task) { w.device.User = "" }, channel.Permanent, ClassMissing},
		"store away":       {func(w *world, _ *channel.Task) { w.broken = errors.New("away") }, channel.RetryAfter, channel.ClassPanic},
		"another's keys":   {func(w *world, _ *channel.Task) { w.device.Organization = "other" }, channel.Permanent, channel.ClassUnreadable},
		"a key that left":  {func(w *world, _ *channel.Task) { w.device.KeyID = "gone" }, channel.Auth, ClassNoKey},
		"work that is odd": {func(_ *world, task *channel.Task) { task.Work = []byte("{") }, channel.Permanent, channel.ClassUnreadable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			task := w.task(t, channel.Target{User: "ann"})
			tt.change(w, &task)
			got := w.transport.Deliver(t.Context(), task)
			if got.Kind != tt.kind || got.Class != tt.class || !got.Untested || len(w.pushed) != 0 {
				t.Errorf("%+v after %d pushes", got, len(w.pushed))
			}
			testkit.NoLeak(t, canaryPath, fmt.Sprintf("%+v", got))
		})
	}
}

// What was learnt must be written before it counts: otherwise the push is tried again.
func TestDeliverTriesAgainWhenItCannotRemove(t *testing.T) {
	w := newWorld(t)
	w.answer = webpush.Answer{Verdict: webpush.Gone, Status: 410}
	store := w.transport.devices
	w.transport.devices = failingRemove{store}
	if got := w.transport.Deliver(t.Context(), w.task(t, channel.Target{User: "ann"})); got.Kind != channel.RetryAfter {
		t.Errorf("outcome %+v", got)
	}
}

type failingRemove struct{ DeviceStore }

func (failingRemove) Remove(context.Context, uuid.UUID, int64) error { return errors.New("away") }

func TestSendersOfABroadcastAreShared(t *testing.T) {
	w := newWorld(t)
	user, all := w.task(t, channel.Target{User: "ann"}), w.task(t, channel.Target{Broadcast: true})
	other := w.task(t, channel.Target{Broadcast: true})
	for _, task := range []channel.Task{user, user, all, all, other} {
		w.transport.Deliver(t.Context(), task)
	}
	s := w.senders
	if s[0] == s[1] || s[2] != s[3] || s[2] == s[4] {
		t.Error("a user's pushes share a sender, or a broadcast's don't")
	}
	if bytes.Equal(w.texts[2], w.texts[4]) {
		t.Error("two sends have one id")
	}
}

func TestSendersAreBounded(t *testing.T) {
	pool, now := newSenders(), time.Unix(0, 0)
	for range 3 * maxSenders {
		if _, err := pool.of(uuid.New(), now); err != nil {
			t.Fatal(err)
		}
	}
	if len(pool.all) > maxSenders {
		t.Errorf("%d senders kept", len(pool.all))
	}
	id := uuid.New()
	first, _ := pool.of(id, now)
	if again, _ := pool.of(id, now.Add(senderLife)); again == first {
		t.Error("a sender lives for ever")
	}
}

func TestOneOffDevice(t *testing.T) {
	w := newWorld(t)
	task := w.task(t, channel.Target{Subscription: &channel.Subscription{Endpoint: "https://fcm.googleapis.com/x", Keys: webpushtest.BrowserKeys(t, []byte("auth-of-16-bytes"))}})
	task.Subscription = nil
	w.answer = webpush.Answer{Verdict: webpush.Gone, Status: 410}
	if got := w.transport.Deliver(t.Context(), task); got.Kind != channel.Gone || len(w.calls) != 0 || w.pushed[0].ID() != w.keys.Keys().Current().ID() {
		t.Errorf("%+v, %v", got, w.calls)
	}
}

func TestTurnstile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newHostLimiter(2)
		first, _ := limiter.enter(t.Context(), "a", "acme")
		second, _ := limiter.enter(t.Context(), "a", "other")
		elsewhere, err := limiter.enter(t.Context(), "b", "acme")
		if err != nil {
			t.Fatal("a full host keeps others out")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := limiter.enter(short, "a", "third"); err == nil {
			t.Error("three at a host of two")
		}
		first()
		third, err := limiter.enter(t.Context(), "a", "third")
		if err != nil {
			t.Fatal(err)
		}
		for _, leave := range []func(){second, third, elsewhere} {
			leave()
		}
		if len(limiter.hosts) != 0 {
			t.Errorf("%d hosts kept", len(limiter.hosts))
		}
	})
}

// An organization whose pushes hang holds half of a push service's places: another's get one at once. Pushes that get
// none soon are sent later, which is no attempt.
func TestOrganizationHasItsShareOfAPushService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pushes := &hangingPusher{answered: make(chan struct{})}
		w.transport.pusher = pushes
		task := w.task(t, channel.Target{User: "ann"})
		var delivering sync.WaitGroup
		var crowded atomic.Int32
		for _, want := range []struct {
			organization string
			pushes       int32
		}{{"hostile", 2}, {"acme", 4}} { // of 4 places
			for range 8 {
				delivering.Go(func() {
					task := task
					task.Organization = want.organization
					if w.transport.Deliver(t.Context(), task) == channel.Crowded(placeDelay) {
						crowded.Add(1)
					}
				})
			}
			synctest.Wait()
			if got := pushes.begun.Load(); got != want.pushes {
				t.Errorf("%d pushes in flight after those of %s, want %d", got, want.organization, want.pushes)
			}
		}
		time.Sleep(placeWait)
		synctest.Wait()
		if got := crowded.Load(); got != 12 {
			t.Errorf("%d of 12 waiting pushes found no place", got)
		}
		close(pushes.answered)
		delivering.Wait()
	})
}

// hangingPusher answers no push before answered is closed.
type hangingPusher struct {
	begun    atomic.Int32
	answered chan struct{}
}

func (p *hangingPusher) Push(context.Context, webpush.Key, *webpush.Sender, webpush.Subscription, webpush.Message) (webpush.Answer, error) {
	p.begun.Add(1)
	<-p.answered
	return webpush.Answer{Verdict: webpush.Accepted, Status: 201}, nil
}
