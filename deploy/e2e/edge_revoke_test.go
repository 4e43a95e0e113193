//go:build e2e

package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// The revocation of a key ends its streams on both replicas within a second, and so the calls to the vendor. A change
// that leaves the key valid, and the revocation of another key, end no stream.
func TestEdgeRevocationEndsStreams(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	h.stallStreams(t) // the vendor begins its answer and never ends it
	organization := unique("org")
	endings := map[string]func(id string){
		"revoked": func(id string) {
			h.operator(stack.Edge).do(t, http.MethodDelete, "/admin/v1/keys/"+id, nil).want(t, http.StatusNoContent)
		},
		"revoked by command": func(id string) {
			if out, err := h.Command(t.Context(), stack.Edge, "keys", "revoke", id).CombinedOutput(); err != nil {
				t.Fatalf("edge keys revoke: %v: %s", err, out)
			}
		},
		"rotated without overlap": func(id string) {
			h.keyByOperator(t, http.MethodPost, "/admin/v1/keys/"+id+"/rotate", object{"overlap_seconds": 0}, http.StatusCreated)
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			gone, other := h.key(t, organization, "ai", "read"), h.key(t, organization, "ai", "read")
			var cut []<-chan time.Time
			for _, replica := range h.both(gone.Key) {
				cut = append(cut, endOf(t, replica.stream(t, chatRoute, ask(stalled.model, "hello", streamed))))
			}
			stays := endOf(t, h.both(other.Key)[1].stream(t, chatRoute, ask(stalled.model, "hello", streamed)))
			h.keyByOperator(t, http.MethodPatch, "/admin/v1/keys/"+gone.ID, object{"name": "renamed"}, http.StatusOK)
			select {
			case <-cut[0]:
				t.Error("a new name ended a stream")
			case <-cut[1]:
				t.Error("a new name ended a stream")
			case <-time.After(time.Second): // longer than a change takes to reach every replica
			}
			end(gone.ID)
			ended := time.Now()
			for i, at := range cut {
				select {
				case at := <-at:
					t.Logf("replica %d after %v", i+1, at.Sub(ended))
				case <-time.After(time.Until(ended.Add(spreadTimeout))):
					t.Errorf("replica %d: the stream goes on", i+1)
				}
			}
			select {
			case <-stays:
				t.Error("another key's stream was ended")
			default:
			}
		})
	}
}

// endOf waits for a stream's first line, and returns a channel that gets the time at which the stream ends.
func endOf(t *testing.T, s *eventStream) <-chan time.Time {
	t.Helper()
	if !s.lines.Scan() {
		t.Fatalf("%s: nothing came: %v", s.label, s.lines.Err())
	}
	ended := make(chan time.Time, 1)
	go func() {
		for s.lines.Scan() {
		}
		ended <- time.Now()
	}()
	return ended
}

// An edge that drains ends the streams of inboxes, which would otherwise keep it until its time is up; their readers
// resume at another replica.
func TestEdgeDrainEndsInboxStreams(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	k := h.key(t, unique("org"), "notifications", "notifications:inbox:read")
	const route = "/product/v1/notifications/inbox/stream?user_id=ann"
	ended := endOf(t, h.both(k.Key)[1].events(t, http.MethodGet, route, nil))
	begun := time.Now()
	if err := h.Terminate(t.Context(), string(secondEdge)); err != nil {
		t.Errorf("terminate: %v", err)
	}
	select {
	case at := <-ended:
		t.Logf("the stream ended after %v, the edge after %v", at.Sub(begun), time.Since(begun))
	case <-time.After(time.Second):
		t.Error("the edge has ended, and the stream has not")
	}
	h.both(k.Key)[0].events(t, http.MethodGet, route, nil).leave()
	if err := h.Restart(t.Context(), string(secondEdge)); err != nil {
		t.Fatal(err)
	}
}
