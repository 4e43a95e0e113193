package toolcall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is all that a Caller depends on, in memory. A test changes it between calls.
type world struct {
	mu       sync.Mutex
	servers  []*toolserver.Server
	tools    map[toolserver.Key][]definition.Reviewed
	used     []toolserver.Key
	refresh  func() error
	away     error // of the texts
	levels   map[string]trust.Level
	stale    error
	settings toolrule.Settings

	refused    error // of the admission
	grant      admission.Terms
	reserved   map[uuid.UUID]price.Pico
	reserveErr error
	cause      context.CancelCauseFunc

	counted []budget.Tool

	approvals *approvals
	hold      time.Duration
	version   string // of the policy; empty for policy-1
	answer    func(ctx context.Context, call *upstream.Call) (upstream.Result, error)
	sent      []*upstream.Call
	// offers are what servers offer beside tools; an error in silent is of their lists. queried is what was sent.
	offers  map[toolserver.Key]map[upstream.Offer][]upstream.Item
	silent  map[toolserver.Key]error
	queried []*upstream.Query
	reply   func(q *upstream.Query) (upstream.Result, error) // to queries; nil: which server it was
	follow  func(ctx context.Context, s *toolserver.Server, f *upstream.Follow) error
	tasks   tasks

	ready, commitErr error
	rows             []ledger.Entry
	records          []*trace.Observation
	steps            []string // in which order things happened
}

func (w *world) step(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, name)
}

func (w *world) entry(s *toolserver.Server) *definition.Entry {
	known := make([]definition.Known, 0, len(w.tools[s.Key()]))
	for _, tool := range w.tools[s.Key()] {
		known = append(known, definition.Known{Name: tool.Name, Digest: tool.Digest, Status: tool.Status, Present: tool.Present})
	}
	return definition.NewEntry(*s, 1, known)
}

func (w *world) Find(organization, id string) *definition.Entry {
	for _, own := range []string{organization, ""} {
		for _, s := range w.servers {
			if s.Organization == own && s.ID == id {
				return w.entry(s)
			}
		}
	}
	return nil
}

func (w *world) Prefixed(organization, prefix string) *definition.Entry {
	for _, e := range w.Exposed(organization) {
		if e.Server.Prefix == prefix {
			return e
		}
	}
	return nil
}

func (w *world) Exposed(organization string) (of []*definition.Entry) {
	for _, s := range w.servers {
		if found := w.Find(organization, s.ID); found != nil && found.Server.Key() == s.Key() {
			of = append(of, found)
		}
	}
	return of
}

func (w *world) Of(_ context.Context, e *definition.Entry) (tools []definition.Reviewed, err error) {
	w.step("texts")
	for _, tool := range w.tools[e.Server.Key()] {
		if tool.Present {
			tools = append(tools, tool)
		}
	}
	return tools, w.away
}

func (w *world) Used(server toolserver.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = append(w.used, server)
}

func (w *world) Refresh(context.Context, toolserver.Key, time.Duration) error {
	w.step("refresh")
	return w.refresh()
}

func (w *world) Level(_, server string) (trust.Level, error) {
	w.step("trust")
	w.mu.Lock()
	defer w.mu.Unlock()
	if level, known := w.levels[server]; known {
		return level, w.stale
	}
	return trust.Untrusted, w.stale
}

// distrust takes back the trust in every server.
func (w *world) distrust() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.levels = map[string]trust.Level{}
}

// rule adds a rule to the policy.
func (w *world) rule(r toolrule.Rule) {
	r.Name = "a rule"
	w.settings.Rules = append(w.settings.Rules, r)
}

func (w *world) policy() Policy {
	rules, err := toolrule.Compile(w.settings)
	if err != nil {
		panic(err)
	}
	return Policy{rules, cmp.Or(w.version, "policy-1")}
}

func (w *world) Call(ctx context.Context, s *toolserver.Server, call *upstream.Call) (upstream.Result, error) {
	w.step("send")
	w.mu.Lock()
	w.sent = append(w.sent, call)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	return w.answer(ctx, call)
}

func (w *world) Query(ctx context.Context, s *toolserver.Server, q *upstream.Query) (upstream.Result, error) {
	w.step("send")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queried = append(w.queried, q)
	if w.reply != nil {
		return w.reply(q)
	}
	return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"from":"` + s.ID + `"}`)}, ctx.Err()
}

func (w *world) Follow(ctx context.Context, s *toolserver.Server, f *upstream.Follow) error {
	return w.follow(ctx, s, f)
}

// offerings is the Offerings of a world, whose name Of is taken.
type offerings struct{ *world }

func (o offerings) Of(_ context.Context, organization string, s *toolserver.Server, of upstream.Offer) ([]upstream.Item, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if organization != "acme" {
		return nil, errors.New("asked for another organization")
	}
	return o.offers[s.Key()][of], o.silent[s.Key()]
}

func (w *world) Ready(context.Context) error { return w.ready }

func (w *world) Commit(ctx context.Context, e ledger.Entry) error {
	w.step("commit")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.commitErr == nil {
		w.rows = append(w.rows, e)
	}
	return w.commitErr
}

func (w *world) Observe(string) (int, bool) { return 1 << 10, true }

func (w *world) Record(_ context.Context, o *trace.Observation) { w.records = append(w.records, o) }

func (w *world) Admit(ctx context.Context, _, _ string, _ keyterm.Terms) (admission.Grant, error) {
	if w.refused != nil {
		return nil, w.refused
	}
	ctx, w.cause = context.WithCancelCause(ctx)
	return &grant{world: w, ctx: ctx, held: map[uuid.UUID]bool{}}, nil
}

// grant is an admission.Grant.
type grant struct {
	*world

	ctx  context.Context
	held map[uuid.UUID]bool
}

func (g *grant) Context() context.Context { return g.ctx }
func (g *grant) Terms() admission.Terms   { return g.grant }

func (g *grant) Reserve(_ context.Context, id uuid.UUID, worst price.Pico) error {
	g.step("reserve")
	if g.reserveErr == nil {
		g.reserved[id], g.held[id] = worst, true
	}
	return g.reserveErr
}

func (g *grant) ReserveTool(ctx context.Context, id uuid.UUID, cost price.Pico, tool budget.Tool) error {
	g.counted = append(g.counted, tool)
	return g.Reserve(ctx, id, cost)
}

func (g *grant) Settle(uuid.UUID, bool) {}

func (g *grant) End(recorded bool) {
	for id := range g.held {
		if !recorded {
			delete(g.reserved, id)
		}
	}
	g.cause(nil)
}

// open returns a Caller of a world with a trusted server "files" that has the approved tools "read" and "write", and
// whose calls answer.
func open(tb testing.TB) (*Caller, *world) {
	tb.Helper()
	files := &toolserver.Server{
		Organization: "acme", ID: "files", Prefix: "fs", URL: "https://files.example", Price: 7e9, Timeout: time.Minute, Version: 3,
		Credential: toolserver.Credential{Custody: toolserver.CustodyReference, Fingerprint: "f1"},
	}
	w := &world{
		servers:  []*toolserver.Server{files},
		tools:    map[toolserver.Key][]definition.Reviewed{files.Key(): {tool(files, "read"), tool(files, "write")}},
		levels:   map[string]trust.Level{"files": trust.Community},
		reserved: map[uuid.UUID]price.Pico{},
		answer: func(context.Context, *upstream.Call) (upstream.Result, error) {
			return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"content":[]}`)}, nil
		},
	}
	return w.caller(tb), w
}

func (w *world) caller(tb testing.TB) *Caller {
	tb.Helper()
	books := quota.New(quota.Options{})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- books.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		<-done
	})
	o := Options{
		Registry: w, Texts: w, Listings: w, Offerings: offerings{w}, Trust: w, Policy: w.policy, Admission: w,
		Limits: books, Circuits: health.NewSet(health.DefaultPolicy(), nil, slog.New(slog.DiscardHandler)), Upstream: w, Ledger: w, Recorder: w,
		Log: slog.New(slog.DiscardHandler), Meter: noop.Meter{},
	}
	if w.approvals != nil {
		o.Approvals, o.Hold = w.approvals, w.hold
	}
	c, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// tool returns an approved definition that takes any arguments but those whose member n is no integer.
func tool(s *toolserver.Server, name string) definition.Reviewed {
	text := `{"name":"` + name + `","description":"a tool","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"x":1}`
	d := definition.Reviewed{Status: definition.Approved, Present: true}
	d.Server, d.Name, d.Text = s.Key(), name, json.RawMessage(text)
	copy(d.Digest[:], s.ID+name)
	return d
}

func request(name Name, arguments string) *Request {
	return &Request{
		Asker: Asker{RequestID: "r1", Organization: "acme", Key: "k1", Service: "edge", Run: "run-1", User: "ann", Tags: map[string]string{"team": "a"}},
		Tool:  name, Arguments: json.RawMessage(arguments),
	}
}

// wants fails unless an error is an *apierr.Error of a reason.
func wants(t *testing.T, err error, reason apierr.Reason) {
	t.Helper()
	shown, ok := errors.AsType[*apierr.Error](err)
	if !ok || shown.Reason != reason {
		t.Errorf("%v, want %s", err, reason)
	}
}
