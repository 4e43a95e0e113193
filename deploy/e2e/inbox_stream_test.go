//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// inboxEvent is an event of an inbox stream.
type inboxEvent struct {
	id    int64
	kind  string
	count int
}

// follow reads an inbox's stream at a replica until it ends or until most events have arrived.
func (h *harness) follow(ctx context.Context, t *testing.T, member, organization, user, last string, most int, each func(inboxEvent)) error {
	t.Helper()
	query := url.Values{"user_id": {user}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL(member)+"/v1/notifications/stream?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	request.Header = h.service(stack.Notify, organization).header.Clone()
	request.Header.Set("Last-Event-ID", last)
	response, err := httpClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var e inboxEvent
	for lines := bufio.NewScanner(response.Body); lines.Scan() && most > 0; {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id, _ = strconv.ParseInt(value, 10, 64)
		case "event":
			e.kind = value
		case "data":
			var data struct {
				Count int `json:"unread_count"`
			}
			if err := json.Unmarshal([]byte(value), &data); err != nil {
				return err
			}
			e.count = data.Count
		case "":
			if e.kind != "" {
				each(e)
				most--
			}
			e = inboxEvent{}
		}
	}
	return nil
}

// Readers and writers at both replicas, one of which is killed and drained meanwhile: every reader gets every change
// once and in order, and ends with the exact count.
func TestInboxStreamsOverReplicas(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	organization := unique("org")
	const messages, reads = 60, 20
	const total = messages + reads
	members := []string{string(stack.Notify), secondNotify}
	ctx, stop := context.WithTimeout(t.Context(), 2*waitTimeout)
	defer stop()
	var readers sync.WaitGroup
	for i, member := range members {
		for leave := range 2 {
			readers.Go(func() {
				var got []inboxEvent
				for len(got) < total && ctx.Err() == nil {
					last := "0"
					if len(got) > 0 {
						last = strconv.FormatInt(got[len(got)-1].id, 10)
					}
					most := 1 + total - len(got)
					if leave == 1 {
						most = min(most, 12) // disconnects, and resumes
					}
					_ = h.follow(ctx, t, member, organization, "ann", last, most, func(e inboxEvent) {
						if e.kind != "ready" {
							got = append(got, e)
						}
					})
				}
				for n, e := range got {
					if e.id != int64(n+1) || e.kind == "reset" {
						t.Errorf("reader at %s: event %d is %+v", members[i], n+1, e)
						return
					}
				}
				if len(got) != total || got[total-1].count != messages-reads {
					t.Errorf("reader at %s: %d events of %d", members[i], len(got), total)
				}
			})
		}
	}
	for n := range messages {
		h.notifyAt(t, members[n%2], organization)
		switch n {
		case messages / 3:
			if err := h.Kill(secondNotify); err != nil {
				t.Fatal(err)
			}
			if err := h.Restart(t.Context(), secondNotify); err != nil {
				t.Fatal(err)
			}
		case messages / 2:
			began := time.Now()
			if err := h.Terminate(t.Context(), secondNotify); err != nil {
				t.Errorf("drain with open streams: %v", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the drain took %v", took)
			}
			if err := h.Restart(t.Context(), secondNotify); err != nil {
				t.Fatal(err)
			}
		}
	}
	var page inboxPage
	h.service(stack.Notify, organization).get(t, inboxPath+"?user_id=ann&limit="+strconv.Itoa(reads)).into(t, http.StatusOK, &page)
	for _, r := range page.Records {
		h.service(stack.Notify, organization).do(t, http.MethodPut, inboxPath+"/"+r.ID+"/read", object{}).want(t, http.StatusOK)
	}
	readers.Wait()
}

// notifyAt sends a notification to ann at one replica.
func (h *harness) notifyAt(t *testing.T, member, organization string) {
	t.Helper()
	at := client{base: h.URL(member), header: h.service(stack.Notify, organization).header}
	at.post(t, notifyPath, notificationTo("ann", "m")).want(t, http.StatusAccepted)
}

func TestInboxStreamRefuses(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	const path = inboxPath + "/stream"
	notify := h.service(stack.Notify, organization)
	h.anonymous(stack.Notify).get(t, path).refusedWith(t, http.StatusUnauthorized, "token")
	notify.bearer(h.Secrets().Support).get(t, path).refusedWith(t, http.StatusForbidden, "role")
	notify.get(t, path+"?organization_id=org-other").refusedWith(t, http.StatusForbidden, "organization_id")
	notify.with("X-User-Id", "ann").get(t, path+"?user_id=bob").refusedWith(t, http.StatusBadRequest, "user_id")
	notify.get(t, path+"?colour=red").refusedWith(t, http.StatusBadRequest, "colour")
}
