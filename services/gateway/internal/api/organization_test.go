package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/platform/apierr"
)

// purger counts purges, or fails.
type purger struct {
	mu    sync.Mutex
	of    []string
	fails error
}

func (p *purger) Purge(_ context.Context, organization string) (cache.Purged, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of = append(p.of, organization)
	return cache.Purged{Count: 3, At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}, p.fails
}

const purgePath = "/v1/prompt-cache/purge"

func TestPurgePromptCache(t *testing.T) {
	b := setup(t)
	a := b.post(t, purgePath, `{"organization_id":"acme"}`)
	if a.status != http.StatusOK || a.body != `{"organization_id":"acme","purged":3,"remaining":0,"purged_at":"2026-11-21T12:00:00Z"}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	b.post(t, purgePath, `{}`) // the header's organization
	b.post(t, purgePath, `{"organization_id":"other"}`, "X-Organization-Id", "")
	if got := strings.Join(b.purger.of, " "); got != "acme acme other" {
		t.Errorf("purged %q", got)
	}
}

func TestPurgePromptCacheRefuses(t *testing.T) {
	b := setup(t)
	b.post(t, purgePath, `{"organization_id":"other"}`).refused(t, 403, "organization_mismatch", "organization_id")
	b.post(t, purgePath, `{}`, "X-Organization-Id", "").refused(t, 400, "invalid_request", "organization_id")
	b.post(t, purgePath, `{"organisation":"acme"}`).refused(t, 400, "invalid_request", "organisation")
	b.post(t, purgePath, `{}`, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "")
	if len(b.purger.of) != 0 {
		t.Errorf("purged %v", b.purger.of)
	}
	b.purger.fails = apierr.New(apierr.KindUnavailable, cache.ReasonPurgeIncomplete, "send the purge again")
	if d := b.post(t, purgePath, `{}`).refused(t, 503, "purge_incomplete", "again"); !d.Retryable {
		t.Error("a purge that has to be repeated is not retryable")
	}
}
