//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// hostileAtOnce names the variable that says how many behaviours are tried at a time: 1
// tells which of them did what.
const hostileAtOnce = "HOSTILE_AT_ONCE"

// siege is hostile traffic of some organizations beside quiet traffic of others.
type siege struct {
	*harness

	guard  *guard
	pace   *pace
	atOnce int
}

const (
	// quietPhase is how long a phase without hostile traffic lasts, between two with it.
	quietPhase = 1200 * time.Millisecond
	// hostilePatience bounds a call of whatever kind: a caller that is answered badly is
	// answered, too.
	hostilePatience = 20 * time.Second
	// hostileAnswer bounds what a caller reads of an answer, in bytes.
	hostileAnswer = 64 << 20

	// How much slower others may get. The processors are shared with the fakes, the
	// stores and this test, so the bound here only finds what stands still or crawls;
	// the soak's is the one that counts.
	paceRatio = 1.5
	paceFloor = 500 * time.Millisecond
)

// Third parties and callers of some organizations do all that the fakes know to do
// wrong, while others go about their business: no process ends or grows beyond its
// bound, the others are all answered, each caller gets the answer that is for him,
// and every account is right. That no secret is left anywhere is looked through at
// the end of the run, as of every stack.
func TestHostile(t *testing.T) {
	if err := os.MkdirAll(besiegedSecrets, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(besiegedSecrets)
	h := besieged.get(t)
	s := &siege{harness: h, guard: h.guardAll(t), pace: newPace(), atOnce: 4}
	if n, err := strconv.Atoi(os.Getenv(hostileAtOnce)); err == nil && n > 0 {
		s.atOnce = n
	}
	quiet := s.goAbout(t)
	vendorsOf := s.vendorGroups(t)
	phases := []struct {
		name   string
		groups map[string]func(*testing.T) // at once
	}{
		{"nested and endless", map[string]func(*testing.T){"vendors": vendorsOf[0]}},
		{"hosts", map[string]func(*testing.T){"receivers": s.receivers, "push services": s.pushServices, "Slack": s.slack, "direct webhooks": s.directWebhooks}},
		{"lengths and refusals", map[string]func(*testing.T){"vendors": vendorsOf[1]}},
		{"repeats and garbage", map[string]func(*testing.T){"vendors": vendorsOf[2]}},
		{"callers", map[string]func(*testing.T){"requests": s.callers, "slow": s.slowCallers, "gRPC": s.grpcCallers}},
		{"usage and forms", map[string]func(*testing.T){"vendors": vendorsOf[3]}},
	}
	rest(t, quietPhase)
	for _, p := range phases {
		s.pace.turn()
		begun := time.Now()
		t.Run(p.name, func(t *testing.T) {
			eachAtOnce(slices.Sorted(maps.Keys(p.groups)), len(p.groups), func(name string) { t.Run(name, p.groups[name]) })
		})
		s.guard.check(t, p.name)
		t.Logf("phase %d, %s: %s", s.pace.now(), p.name, time.Since(begun).Round(time.Millisecond))
		s.pace.turn()
		rest(t, quietPhase)
	}
	quiet.stop()
	s.pace.check(t, paceRatio, paceFloor)
	s.noTokens(t)
}

// within makes a call that must come to an end.
func (c client) within(t *testing.T, path string, body any) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hostilePatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = c.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	response, err := wire.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, hostileAnswer))
	a := answer{"POST " + path, response.StatusCode, response.Header, text}
	responses.add(a)
	return a, err
}

// tokens are those that a push service gets: signed, and good for hours.
var tokens = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}`)

// noTokens wants no token of a push in any row, key or log.
func (s *siege) noTokens(t *testing.T) {
	t.Helper()
	look := func(place, text string) {
		if tokens.MatchString(text) {
			t.Errorf("a token for a push service is in %s", place)
		}
	}
	if err := s.eachRow(t.Context(), look); err != nil {
		t.Error(err)
	}
	if err := s.eachKey(t.Context(), look); err != nil {
		t.Error(err)
	}
	logs, err := filepath.Glob(filepath.Join(s.logs(), "*.log"))
	if err != nil || len(logs) == 0 {
		t.Errorf("no logs: %v", err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Error(err)
		}
		look(filepath.Base(log), string(text))
	}
}

// The quiet customers: one organization each, that uses everything.
const quietCustomers = 2

var quietVendors = []vendor{
	{name: "quiet-openai", dialect: "openai", model: "quiet-openai"},
	{name: "quiet-anthropic", dialect: "anthropic", model: "quiet-anthropic"},
	{name: "quiet-gemini", dialect: "gemini", model: "quiet-gemini"},
}

// goAbout has quiet customers call without an end.
func (s *siege) goAbout(t *testing.T) *loadGenerator {
	t.Helper()
	quiet := newLoadGenerator(t)
	for range quietCustomers {
		organization := unique("quiet")
		ai, webhooks := s.customer(t, organization, "ai", "read"), s.customer(t, organization, "webhooks", "write")
		notifications := s.customer(t, organization, "notifications", "write")
		to, device := s.receiver(), s.browser(t, organization)
		s.enrol(t, organization, device, object{"user_id": "ann"})
		for i, v := range quietVendors {
			quiet.start(1, func(int) { s.quietChat(t, quiet, ai, v, i%2 == 0) })
		}
		quiet.start(1, func(int) { s.quietChat(t, quiet, ai, quietVendors[0], true) })
		quiet.start(1, func(int) {
			s.quietPost(t, quiet, "deliveries", webhooks, deliveryRoute, to.deliver(), http.StatusAccepted)
		})
		quiet.start(1, func(int) {
			s.quietPost(t, quiet, "notifications", notifications, sendRoute, object{
				"channels": []string{"in_app", "web_push"}, "message": "hello", "target": object{"user_id": "ann"},
			}, http.StatusAccepted)
		})
	}
	return quiet
}

const quietPause = 15 * time.Millisecond

func (s *siege) quietChat(t *testing.T, quiet *loadGenerator, ai client, v vendor, stream bool) {
	t.Helper()
	kind := "chat"
	if stream {
		kind = "streams"
	}
	mark := unique("mark")
	a, ok := s.quietPost(t, quiet, kind, ai, chatRoute, ask(v.model, mark, object{"stream": stream}), http.StatusOK)
	if ok && (!regexp.MustCompile(mark).Match(a.body) || stream && !wholeStream(a.body)) {
		s.pace.fail(kind, s.pace.now(), "not the answer to what was asked: "+shorten(a.body))
	}
}

// quietPost makes a call that must be answered well, and notes how long it took.
func (s *siege) quietPost(t *testing.T, quiet *loadGenerator, kind string, c client, path string, body object, status int) (answer, bool) {
	t.Helper()
	phase, begun := s.pace.now(), time.Now()
	a, err := c.within(t, path, body)
	ok := err == nil && a.status == status
	if ok {
		s.pace.note(kind, phase, time.Since(begun))
	} else {
		s.pace.fail(kind, phase, fmt.Sprintf("answered %d %s, %v", a.status, shorten(a.body), err))
	}
	quiet.pause(quietPause)
	return a, ok
}

// eachAtOnce runs a function for each item, some of them at a time.
func eachAtOnce[T any](items []T, atOnce int, run func(T)) {
	next := make(chan T)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for item := range next {
				run(item)
			}
		})
	}
	for item := range slices.Values(items) {
		next <- item
	}
	close(next)
	workers.Wait()
}

// ceiling sets what an organization may spend a day, in cents.
func (h *harness) ceiling(t *testing.T, organization string, cents float64) {
	t.Helper()
	h.operator(stack.Gateway).do(t, http.MethodPut, "/v1/admin/orgs/"+organization+"/budget",
		object{"budget_ceiling_cents": cents, "period": "day"}).want(t, http.StatusOK)
}
