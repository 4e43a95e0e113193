package inference

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step is one action of a scripted provider: it waits, then sends an event or fails.
type step struct {
	wait  time.Duration
	event provider.Event
	err   error
}

// script is a provider with scripted steps: Chat takes the first step, a stream takes all.
type script struct {
	name   string
	answer provider.Answer
	steps  []step
	openBy error // the error before the stream

	mu     sync.Mutex
	calls  int
	chat   *provider.Chat
	closed int
}

func (s *script) Name() string { return s.name }

func (s *script) called(chat *provider.Chat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.chat = chat
}

func (s *script) count() (calls, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.closed
}

func (s *script) Chat(ctx context.Context, _ provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	s.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	for _, step := range s.steps {
		if err := step.take(ctx); err != nil {
			return nil, err
		}
	}
	return &s.answer, nil
}

func (s *script) StreamChat(_ context.Context, _ provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	s.called(chat)
	if s.openBy != nil {
		return nil, s.openBy
	}
	return nil, errors.New("use streaming")
}

// streaming is a script whose streams end with their context.
type streaming struct{ *script }

func (s streaming) StreamChat(ctx context.Context, c provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	if s.openBy != nil {
		return s.script.StreamChat(ctx, c, chat)
	}
	s.called(chat)
	provider.ReceiptOf(ctx).SetSent()
	return &scriptStream{ctx: ctx, of: s.script, steps: s.steps}, nil
}

type scriptStream struct {
	ctx   context.Context
	of    *script
	steps []step
}

func (s *scriptStream) Next() (provider.Event, error) {
	if len(s.steps) == 0 {
		return provider.Event{}, io.EOF
	}
	next := s.steps[0]
	s.steps = s.steps[1:]
	return next.event, next.take(s.ctx)
}

func (s *scriptStream) Buffered() bool { return len(s.steps) == 0 || s.steps[0].wait == 0 }

func (*scriptStream) Size() int { return 0 }

func (s *scriptStream) Close() error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.closed++
	return nil
}

func (s step) take(ctx context.Context) error {
	if s.wait > 0 {
		select {
		case <-ctx.Done():
			cause := context.Cause(ctx)
			return &provider.Error{Class: apierr.ClassTransient, Text: "the call was ended: " + cause.Error(), Cause: cause}
		case <-time.After(s.wait):
		}
	}
	return s.err
}

// memoryLedger is a ledger in memory.
type memoryLedger struct {
	mu      sync.Mutex
	away    error
	entries []ledger.Entry
}

func (l *memoryLedger) Ready(context.Context) error { return l.away }

func (l *memoryLedger) Commit(_ context.Context, e ledger.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	return nil
}

// outcomes returns those of the entries, in order.
func (l *memoryLedger) outcomes() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, e := range l.entries {
		all = append(all, string(e.Outcome))
	}
	return strings.Join(all, " ")
}

// plan gives every request the same candidates, named like their models; all but the first are substitutes.
type plan struct {
	requested string
	names     []string
}

func (p plan) Plan(r routing.Request) (routing.Plan, error) {
	out := routing.Plan{Requested: p.requested}
	for _, name := range p.names {
		out.Candidates = append(out.Candidates, routing.Candidate{
			Target: provider.Target{Provider: name, Model: name + "-1"}, Upstream: name + "-up", Host: "host_" + name, Substitute: len(out.Candidates) > 0,
		})
		if !r.Substitution {
			break
		}
	}
	return out, nil
}

// keys returns the same key for every provider except those that lack one.
type keys struct{ missing []string }

const canary = "sk-canary-9f8e7d6c5b4a"

func (k keys) Resolve(_ context.Context, scope keyring.Scope, name string) ([]provider.Credential, error) {
	for _, missing := range k.missing {
		if missing == name || scope.Byok == keyring.ModeRequire {
			return nil, keyring.ErrNoKey
		}
	}
	return []provider.Credential{{Key: secret.New(canary), Source: "fleet", Fingerprint: "0011223344556677"}}, nil
}

const testPrices = `providers: [{provider: a, models: [{model: a-1, effective_from: 1999-01-01, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}, {provider: b, models: [{model: b-1, effective_from: 1999-01-01, input_per_mtok_usd: 3, output_per_mtok_usd: 4}]}]`

// bench is an engine over scripted providers.
type bench struct {
	*Engine
	scripts map[string]*script
	ledger  *memoryLedger
	log     *bytes.Buffer
}

var clocks = Clocks{Answer: 10 * time.Second, FirstToken: 2 * time.Second, Idle: time.Second, Total: time.Minute}

func setup(tb testing.TB, missing []string, scripts ...*script) *bench {
	tb.Helper()
	table := pricetest.Table(tb, testPrices)
	b := &bench{scripts: make(map[string]*script), ledger: &memoryLedger{}, log: &bytes.Buffer{}}
	providers := make(map[string]provider.Provider)
	order := plan{requested: scripts[0].name}
	for _, s := range scripts {
		b.scripts[s.name], providers[s.name] = s, streaming{s}
		order.names = append(order.names, s.name)
	}
	fleet := &Fleet{Planner: order, Keys: keys{missing}, Providers: providers, Prices: table}
	engine, err := New(Options{
		Fleet: func() *Fleet { return fleet }, Ledger: b.ledger, Clocks: clocks,
		Log:   slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Meter: metricnoop.NewMeterProvider().Meter(""), Tracer: tracenoop.NewTracerProvider().Tracer(""),
	})
	if err != nil {
		tb.Fatal(err)
	}
	b.Engine = engine
	return b
}

// request returns a chat request that allows substitution.
func request() *Request {
	return &Request{
		ID: "req_1", Organization: "acme", Service: "edge",
		Route: routing.Request{Model: "a-1", Substitution: true},
		Chat:  provider.Chat{Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "12345678"}}}}},
	}
}

func failing(class apierr.Class, status int) []step {
	return []step{{err: &provider.Error{Class: class, Status: status, Text: "it says " + string(class), RetryAfter: 7 * time.Second}}}
}

func text(s string) step { return step{event: provider.Event{Text: s}} }

func end(usage *provider.Usage) step {
	return step{event: provider.Event{FinishReason: provider.FinishStop, Usage: usage}}
}

// read reads a stream to its end.
func read(s *Stream) (string, error) {
	defer s.Close()
	var all string
	for {
		event, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all += event.Text
	}
}
