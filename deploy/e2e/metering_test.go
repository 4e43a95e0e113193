//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

const meteringCallers = 6

// billed is callers at the gateway, each request with an id of its own, and a
// billing consumer that follows the feed by its cursor alone.
type billed struct {
	*loadGenerator

	client client
	next   atomic.Int64

	mu       sync.Mutex
	answered map[string]bool // whole answers, by request id
	records  map[string]int  // of the feed, by request id
	ids      map[string]bool // of records
	cursor   string
	failure  string
}

func (h *harness) bill(t *testing.T) *billed {
	t.Helper()
	b := &billed{
		loadGenerator: newLoadGenerator(t), client: h.service(stack.Gateway, unique("org")),
		answered: map[string]bool{}, records: map[string]int{}, ids: map[string]bool{},
	}
	b.start(meteringCallers, func(caller int) { b.call(t, caller%2 == 1) })
	b.start(1, func(int) {
		_ = b.read(t)
		b.pause(10 * time.Millisecond)
	})
	return b
}

func (b *billed) call(t *testing.T, stream bool) {
	t.Helper()
	id := fmt.Sprint("metered-", b.next.Add(1))
	a, err := b.client.with("X-Request-Id", id).try(t, http.MethodPost, chatPath, ask("sandbox", "hello", object{"stream": stream}))
	if err != nil || a.status != http.StatusOK || stream && !bytes.Contains(a.body, []byte("[DONE]")) {
		b.pause(20 * time.Millisecond) // the gateway is away
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered[id] = true
}

// read takes one page of the feed.
func (b *billed) read(t *testing.T) error {
	t.Helper()
	a, err := b.client.try(t, http.MethodGet, "/v1/usage?limit=200&cursor="+url.QueryEscape(b.cursor), nil)
	if err != nil || a.status != http.StatusOK {
		return fmt.Errorf("status %d, %w", a.status, err)
	}
	var page struct {
		Records []struct {
			ID        string `json:"id"`
			RequestID string `json:"request_id"`
		} `json:"records"`
		NextCursor string `json:"next_cursor"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range page.Records {
		if b.ids[r.ID] {
			b.failure = "record " + r.ID + " came twice"
		}
		b.ids[r.ID] = true
		b.records[r.RequestID]++
	}
	b.cursor = page.NextCursor
	return nil
}

// waitFor waits until so many more are answered.
func (b *billed) waitFor(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.answered)
	}
	want := count() + more
	waitFor(t, waitTimeout, "answers", func() error {
		if n := count(); n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}

// settle stops the callers and wants a record for every answer, none twice, and
// no more others than were cut off.
func (b *billed) settle(t *testing.T, kills int) {
	t.Helper()
	b.stop()
	waitFor(t, waitTimeout, "a record of every answer", func() error {
		if err := b.read(t); err != nil {
			return err
		}
		missing := 0
		for id := range b.answered {
			if b.records[id] == 0 {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d answers have no record", missing, len(b.answered))
		}
		return nil
	})
	for id, n := range b.records {
		if n != 1 {
			t.Errorf("%s has %d records", id, n)
		}
	}
	others := len(b.records) - len(b.answered)
	if most := kills * meteringCallers; others > most || b.failure != "" {
		t.Errorf("%d records without an answer, want %d at most; %s", others, most, b.failure)
	}
	t.Logf("%d answers, %d records, %d of them cut off", len(b.answered), len(b.records), others)
}

// kill -9 of the gateway, again and again under load, with Postgres there and
// away: every answer has its record, once, and a consumer of the feed sees each.
func TestKillGatewayMetering(t *testing.T) {
	h := breakable.get(t)
	b := h.bill(t)
	kills := 0
	kill := func() {
		t.Helper()
		if err := h.Kill(string(stack.Gateway)); err != nil {
			t.Fatal(err)
		}
		kills++
	}
	restart := func(name string) {
		t.Helper()
		if err := h.Restart(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		b.waitFor(t, 60)
		kill()
		restart(string(stack.Gateway))
	}
	for range 2 {
		b.waitFor(t, 60)
		if err := h.Kill(store.Postgres); err != nil {
			t.Fatal(err)
		}
		b.waitFor(t, 200) // They go to disk.
		kill()            // What is there is the next process's.
		restart(store.Postgres)
		restart(string(stack.Gateway))
	}
	b.waitFor(t, 60)
	b.settle(t, kills)
	waitFor(t, 10*time.Second, "the folders of ended gateways", func() error { // They go behind their rows.
		if left := h.spooled(t); len(left) > 1 {
			return fmt.Errorf("%d are left", len(left)-1)
		}
		return nil
	})
}

// The spool holds no content and no key.
func TestSpoolHasNoSecrets(t *testing.T) {
	h := breakable.get(t)
	if err := h.Kill(store.Postgres); err != nil {
		t.Fatal(err)
	}
	const said = "confidential-7c6b5a4938"
	client := h.service(stack.Gateway, unique("org"))
	for range 5 {
		client.post(t, chatPath, ask("sandbox", said)).want(t, http.StatusOK)
	}
	text := ""
	for _, folder := range h.spooled(t) {
		text += folder
	}
	if err := h.Restart(t.Context(), store.Postgres); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, `"usage_state"`) || strings.Contains(text, said) {
		t.Errorf("the spool holds %s", shorten([]byte(text)))
	}
}

// spooled reads the folders of the gateway's spool.
func (h *harness) spooled(t *testing.T) (folders []string) {
	t.Helper()
	root := filepath.Join(h.State(), "spool", string(stack.Gateway), "switchyard-gateway")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		files, err := filepath.Glob(filepath.Join(root, entry.Name(), "*"))
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text += string(content)
		}
		folders = append(folders, text)
	}
	return folders
}
