//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// turn is the payload of a delivery with an ordering key: the key, and how many were enqueued with it before.
type turn struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

// history returns for each ordering key what arrived, oldest first.
func history(t *testing.T, to receiver) map[string][]int {
	t.Helper()
	arrived := map[string][]int{}
	for _, a := range to.arrivals(t) {
		var got turn
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
			t.Fatalf("body %q: %v", shorten([]byte(a.Body)), err)
		}
		arrived[got.Key] = append(arrived[got.Key], got.N)
	}
	return arrived
}

// wantOrder checks that each of n deliveries of each key arrived, and none after a later one.
func wantOrder(t *testing.T, arrived map[string][]int, keys []string, n int) {
	t.Helper()
	for _, key := range keys {
		if !slices.IsSorted(arrived[key]) {
			t.Errorf("key %s: deliveries overtook each other: %v", key, arrived[key])
		}
		if got := slices.Compact(slices.Sorted(slices.Values(arrived[key]))); len(got) != n {
			t.Errorf("key %s: %d of %d deliveries arrived: %v", key, len(got), n, got)
		}
	}
}

// kill -9 of three replicas, one after the other, while the receiver fails a fifth of the attempts: the deliveries of a
// key arrive in the order in which they were accepted, and none is lost.
func TestOrderOverKills(t *testing.T) {
	t.Parallel()
	kills := repeats(3, 60)
	const keys, between = 8, 60 // deliveries that are accepted between two kills
	h := threeEgresses.get(t)
	organization, to := unique("org"), h.receiver()
	var failing []object
	for i := range 300 {
		failing = append(failing, object{"status": 204, "delay_ms": 5})
		if i%5 == 0 { // So few that no circuit opens, which the next failures would keep open.
			failing[i] = object{"status": 503}
		}
	}
	to.answers(t, append(failing, object{"status": 204, "delay_ms": 5})...)
	var clients []client
	for n := 1; n <= egresses; n++ {
		clients = append(clients, h.service(stack.Service(member(stack.WebhookEgress, n)), organization))
	}
	var names []string
	for k := range keys {
		names = append(names, fmt.Sprint("key-", k))
	}
	each := between * (kills + 1) / keys
	accepted := make(chan string, each*keys) // ids
	var producing sync.WaitGroup
	for k, name := range names {
		producing.Go(func() {
			try := k
			for n := range each {
				id, err := enqueueTurn(t, clients, &try, to, turn{name, n})
				if err != nil {
					t.Error(err)
					return
				}
				accepted <- id
			}
		})
	}
	var ids []string
	for kill := range kills {
		for range between {
			select {
			case id := <-accepted:
				ids = append(ids, id)
			case <-soon():
				t.Fatal("too little is accepted")
			}
		}
		killed := member(stack.WebhookEgress, 1+kill%egresses)
		if err := h.Kill(killed); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), killed); err != nil {
			t.Fatal(err)
		}
	}
	producing.Wait()
	close(accepted)
	for id := range accepted {
		ids = append(ids, id)
	}
	for _, id := range ids {
		if d := ended(t, clients[0], id); d.Status != "delivered" {
			t.Errorf("%s is %s after %d attempts, want delivered", id, d.Status, d.Attempts)
		}
	}
	wantOrder(t, history(t, to), names, each)
}

// enqueueTurn enqueues one delivery with an idempotency key, again at the next replica until there is an answer.
func enqueueTurn(t *testing.T, clients []client, try *int, to receiver, of turn) (id string, err error) {
	t.Helper()
	ask := to.deliver(object{"payload": of, "ordering_key": of.Key, "idempotency_key": fmt.Sprint(of.Key, "-", of.N)})
	err = await(t.Context(), waitTimeout, func() error {
		a, err := clients[*try%len(clients)].try(t, http.MethodPost, deliveryPath, ask)
		if err == nil && a.status != http.StatusAccepted && a.status != http.StatusOK {
			err = fmt.Errorf("answered %d: %s", a.status, shorten(a.body))
		}
		if err != nil {
			*try++
			return err
		}
		var got accepted
		err = json.Unmarshal(a.body, &got)
		id = got.ID
		return err
	})
	return id, err
}

// A delivery that fails for good releases the next one; what is resent goes behind all that wait. Meanwhile other keys,
// and deliveries without one, don't wait.
func TestOrderOfOneKey(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	to.answers(t, object{"status": 404}, object{"status": 503}, object{"status": 503}, object{"status": 204})
	var batch struct {
		Deliveries []accepted `json:"deliveries"`
	}
	var items []object
	for n := range 4 {
		items = append(items, to.deliver(object{"payload": turn{"k", n}, "ordering_key": "k"}))
	}
	items[0] = items[0].with(object{"max_attempts": 1})
	webhooks.post(t, deliveryPath+"/batch", object{"deliveries": items}).into(t, http.StatusAccepted, &batch)
	for n, want := range []string{"failed", "delivered", "delivered", "delivered"} {
		d := ended(t, webhooks, batch.Deliveries[n].ID)
		if d.Status != want {
			t.Errorf("delivery %d of the key is %s, want %s", n, d.Status, want)
		}
	}
	if got, want := history(t, to)["k"], []int{0, 1, 1, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("arrived %v, want %v", got, want)
	}

	down := h.receiver()
	down.answers(t, object{"status": 503})
	var head, blocked, other accepted
	webhooks.post(t, deliveryPath, down.deliver(object{"ordering_key": "k"})).into(t, http.StatusAccepted, &head)
	webhooks.post(t, deliveryPath, items[1]).into(t, http.StatusAccepted, &blocked)
	webhooks.post(t, deliveryPath+"/"+batch.Deliveries[0].ID+"/resend", nil).want(t, http.StatusAccepted)
	waitFor(t, waitTimeout, "an attempt of the first delivery", func() error {
		if n := len(attempts(t, webhooks, head.ID)); n == 0 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	webhooks.post(t, deliveryPath, to.deliver(object{"payload": turn{"other", 0}, "ordering_key": "other"})).into(t, http.StatusAccepted, &other)
	if d := ended(t, webhooks, other.ID); d.Status != "delivered" {
		t.Errorf("a delivery with another key is %s", d.Status)
	}
	var waits struct {
		Status    string  `json:"status"`
		LastError string  `json:"last_error"`
		Next      *string `json:"next_attempt_at"`
		Key       string  `json:"ordering_key"`
	}
	webhooks.get(t, deliveryPath+"/"+blocked.ID).into(t, http.StatusOK, &waits)
	if waits.Status != "queued" || waits.LastError != "ordering_key_blocked" || waits.Next != nil || waits.Key != "k" {
		t.Errorf("a blocked delivery is %+v", waits)
	}
	webhooks.post(t, deliveryPath+"/"+head.ID+"/cancel", nil).want(t, http.StatusOK)
	for what, id := range map[string]string{"blocked": blocked.ID, "resent": batch.Deliveries[0].ID} {
		if d := ended(t, webhooks, id); d.Status != "delivered" {
			t.Errorf("the %s delivery is %s", what, d.Status)
		}
	}
	if got := history(t, to)["k"]; !slices.Equal(got[len(got)-2:], []int{1, 0}) {
		t.Errorf("arrived %v, want the resent one last", got)
	}
	webhooks.post(t, deliveryPath, to.deliver(object{"ordering_key": string(make([]byte, 129))})).
		refused(t, http.StatusBadRequest, "invalid_request", "ordering_key")
}
