// Package providertest is the conformance suite that every provider must pass. A dialect supplies golden answers of its
// vendor in testdata; a scripted server sends them, whole, cut short or not at all. Only tests import it.
package providertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Dialect describes a wire dialect to the suite. Answers must contain "text", an answer of several words with usage,
// and "parallel_tools", one with two calls.
type Dialect struct {
	// New returns a provider for a vendor.
	New func(baseURL string, transport http.RoundTripper) (provider.ChatProvider, error)
	// Terms returns what a model refuses, as in provider.Dialect; requests are adapted to it. Nil means nothing.
	Terms func(model string) provider.Terms
	// Answers are the expected answers by the name of their golden files: answers/<name>.json, the whole answer, and
	// answers/<name>.sse, the same answer as a stream.
	Answers map[string]*provider.Answer
	// Refusals are by the name of their golden file errors/<name>.json.
	Refusals map[string]Refusal
	// StreamErrors are by the name of their golden file errors/<name>.sse, a stream that begins normally and then has
	// an error.
	StreamErrors map[string]provider.Error
	// Parts returns a whole answer with the given numbers of text parts and tool calls.
	Parts func(texts, calls int) string
	// NoMark reports that the dialect has no end mark of a stream except the connection's end.
	NoMark bool
	// Native is the test of native bodies; the zero value skips it.
	Native Native
	// Framing is how the vendor sends streams; the zero value is server-sent events.
	Framing Framing
	// Testdata is the folder of the golden files; "testdata" if empty.
	Testdata string
}

// Refusal is an error that a vendor answers with.
type Refusal struct {
	// Status is the status of the answer; 200 for an error that looks like an answer.
	Status int
	Header http.Header
	// Want has no Cause, and no Text if any text will do.
	Want provider.Error
}

// Run runs the suite.
func Run(t *testing.T, d Dialect) {
	t.Helper()
	t.Run("answers", d.answers)
	t.Run("refusals", d.refusals)
	t.Run("stream errors", d.streamErrors)
	t.Run("not JSON", d.notJSON)
	t.Run("nested too deeply", d.nested)
	t.Run("many parts", d.many)
	t.Run("not a stream", d.notStream)
	t.Run("cut streams", d.cutStreams)
	t.Run("cut answer", d.cutAnswer)
	t.Run("cancelled", d.cancelled)
	t.Run("receipts", d.receipts)
	t.Run("no key", d.noKey)
	t.Run("key not sendable", d.brokenKey)
	t.Run("vendor away", d.away)
	t.Run("concurrent", d.concurrent)
	t.Run("connections are kept", d.keptConnections)
	if d.Native.Dialect != "" {
		t.Run("native", d.native)
	}
}

// answers checks that a stream has the same content as the whole answer.
func (d Dialect) answers(t *testing.T) {
	for name, want := range d.Answers {
		t.Run(name, func(t *testing.T) {
			Answers(t, d.serve(t, d.either(t, name)), question(), want)
		})
	}
}

// either answers whole or with a stream, as requested.
func (d Dialect) either(t *testing.T, name string) http.HandlerFunc {
	t.Helper()
	whole := reply(http.StatusOK, asJSON, d.golden(t, "answers", name+".json"))
	streamed := d.stream(d.golden(t, "answers", name+".sse"))
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == d.Framing.mediaType() {
			streamed(w, r)
			return
		}
		whole(w, r)
	}
}

func question() *provider.Chat {
	return &provider.Chat{
		Model:    "model",
		Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "What is the weather?"}}}},
	}
}

// Answers checks that a provider answers a chat as wanted, whole and streamed. A stream has no model, and its limits
// are elsewhere.
func Answers(t *testing.T, p provider.ChatProvider, chat *provider.Chat, want *provider.Answer) {
	t.Helper()
	if err := answers(t.Context(), p, chat, want); err != nil {
		t.Error(err)
	}
}

func answers(ctx context.Context, p provider.ChatProvider, chat *provider.Chat, want *provider.Answer) error {
	whole, err := p.Chat(ctx, Credential(), chat)
	if err != nil {
		return fmt.Errorf("whole answer: %w", err)
	}
	if diff := cmp.Diff(want, whole, cmpopts.EquateEmpty(), ignored("Limits", "Native")); diff != "" {
		return fmt.Errorf("whole answer (-want +got):\n%s", diff)
	}
	stream, err := p.StreamChat(ctx, Credential(), chat)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	streamed, err := Collect(stream)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	if diff := cmp.Diff(want, streamed, cmpopts.EquateEmpty(), ignored("Limits", "Native", "Model")); diff != "" {
		return fmt.Errorf("streamed answer (-want +got):\n%s", diff)
	}
	return nil
}

func ignored(fields ...string) cmp.Option { return cmpopts.IgnoreFields(provider.Answer{}, fields...) }

// concurrent checks that one provider serves many calls at a time.
func (d Dialect) concurrent(t *testing.T) {
	p := d.serve(t, d.either(t, "parallel_tools"))
	for i := range 8 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			Answers(t, p, question(), d.Answers["parallel_tools"])
		})
	}
}

// keptConnections checks that a stream that was read to its end leaves its connection to the next one, though the
// vendor ends its answer only after the last event.
func (d Dialect) keptConnections(t *testing.T) {
	const streams = 10
	release := make(chan struct{}, streams)
	whole := d.stream(d.golden(t, "answers", "text.sse"))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole(w, r)
		flush(w)
		if d.NoMark {
			return
		}
		select {
		case <-release:
		case <-t.Context().Done():
		}
	}))
	connections := make(map[string]bool)
	var mu sync.Mutex
	server.Config.ConnState = countNew(&mu, connections)
	p, _ := d.serveOn(t, server)
	for range streams {
		stream, err := p.StreamChat(t.Context(), Credential(), question())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collect(stream); err != nil {
			t.Fatal(err)
		}
		release <- struct{}{}
		if err := stream.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(connections) == streams {
		t.Errorf("each of %d streams took a connection of its own", streams)
	}
}
