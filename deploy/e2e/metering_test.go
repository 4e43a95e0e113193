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

// meteredLoad is callers of the gateway, with an id of its own for each request, and a billing consumer that reads the
// usage feed by its cursor alone.
type meteredLoad struct {
	*loadGenerator

	client client
	next   atomic.Int64

	mu       sync.Mutex
	answered map[string]bool // request ids of whole answers
	records  map[string]int  // number ids of the feed's records in the feed, by request id
	ids      map[string]bool // ids of the feed's records
	cursor   string
	failure  string
}

func (h *harness) startMeteredLoad(t *testing.T) *meteredLoad {
	t.Helper()
	b := &meteredLoad{
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

func (b *meteredLoad) call(t *testing.T, stream bool) {
	t.Helper()
	id := fmt.Sprint("metered-", b.next.Add(1))
	a, err := b.client.with("X-Request-Id", id).try(t, http.MethodPost, chatPath, ask("sandbox", "hello", object{"stream": stream}))
	if err != nil || a.status != http.StatusOK || stream && !bytes.Contains(a.body, []byte("[DONE]")) {
		b.pause(20 * time.Millisecond) // the gateway is down
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered[id] = true
}

// read reads one page of the feed.
func (b *meteredLoad) read(t *testing.T) error {
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

// waitFor waits until that many more calls are answered.
func (b *meteredLoad) waitFor(t *testing.T, more int) {
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

// settle stops the callers. Every answer must have a record and none two, and there may be no more other records than
// calls were cut off.
func (b *meteredLoad) settle(t *testing.T, kills int) {
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

// kill -9 of the gateway, several times under load, with Postgres running and not: every answer has one record, and a
// consumer of the feed gets each.
func TestKillGatewayMetering(t *testing.T) {
	t.Parallel()
	h := breakable.get(t)
	b := h.startMeteredLoad(t)
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
		b.waitFor(t, 200) // The rows go to the spool.
		kill()            // The next process sends the rows that are in the spool.
		restart(store.Postgres)
		restart(string(stack.Gateway))
	}
	b.waitFor(t, 60)
	b.settle(t, kills)
	waitFor(t, waitTimeout, "the folders of ended gateways", func() error { // A folder is removed after its rows are stored.
		if left := h.spooled(t); len(left) > 1 {
			return fmt.Errorf("%d are left", len(left)-1)
		}
		return nil
	})
}

// The spool holds no content. TestKeysStayInCustody looks for keys.
func TestSpoolHasNoContent(t *testing.T) {
	t.Parallel()
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

// spooled returns the text of each folder of the gateway's spool.
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
