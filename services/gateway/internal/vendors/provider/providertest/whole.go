package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
)

// Ask is an operation without streaming: Embedder's Embed, ImageMaker's MakeImages.
type Ask[Q, A any] func(ctx context.Context, credential provider.Credential, request *Q) (*A, error)

// Whole describes such an operation to the suite.
type Whole[Q, A any] struct {
	// New returns the operation for a vendor.
	New func(baseURL string, transport http.RoundTripper) (Ask[Q, A], error)
	// Dir is the folder of golden files under testdata: <name>.json is a vendor's answer, <name>.request.json the
	// expected request.
	Dir string
	// Cases are by name; one of them is "plain".
	Cases map[string]Case[Q, A]
	// Refusals are by the name of their golden file errors/<name>.json.
	Refusals map[string]Refusal
	// Broken are answers with status 200 that must not pass for the answer to "plain".
	Broken map[string]string
}

// Case is a request and the expected result.
type Case[Q, A any] struct {
	Request *Q
	Want    *A
}

// RunWhole runs the suite for one operation.
func RunWhole[Q, A any](t *testing.T, w Whole[Q, A]) {
	t.Helper()
	t.Run("answers", w.answers)
	t.Run("refusals", w.refusals)
	t.Run("broken answers", w.broken)
	t.Run("not JSON", w.notJSON)
	t.Run("nested too deeply", w.nested)
	t.Run("cut answer", w.cut)
	t.Run("cancelled", w.cancelled)
	t.Run("keys", w.keys)
	t.Run("vendor away", w.away)
}

func (w Whole[Q, A]) serve(t *testing.T, handler http.HandlerFunc) Ask[Q, A] {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return w.at(t, server.URL)
}

func (w Whole[Q, A]) at(t *testing.T, url string) Ask[Q, A] {
	t.Helper()
	transport := network.NewTransport(patience)
	t.Cleanup(transport.CloseIdleConnections)
	ask, err := w.New(url, transport)
	if err != nil {
		t.Fatal(err)
	}
	return ask
}

func (w Whole[Q, A]) plain() *Q { return w.Cases["plain"].Request }

// answers checks the request that is sent, and the result of the answer.
func (w Whole[Q, A]) answers(t *testing.T) {
	for name, c := range w.Cases {
		t.Run(name, func(t *testing.T) {
			var got sent
			answer := reply(http.StatusOK, asJSON, golden(t, w.Dir, name+".json"))
			ask := w.serve(t, func(out http.ResponseWriter, r *http.Request) {
				got = record(t, r)
				answer(out, r)
			})
			made, err := ask(t.Context(), Credential(), c.Request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.Want, made, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			CompareGolden(t, filepath.Join("testdata", w.Dir, name+".request.json"), got)
		})
	}
}

// fails calls the operation and checks what holds for every error.
func (w Whole[Q, A]) fails(t *testing.T, ask Ask[Q, A]) *provider.Error {
	t.Helper()
	_, err := ask(t.Context(), Credential(), w.plain())
	return failure(t, err)
}

func (w Whole[Q, A]) refusals(t *testing.T) {
	for name, refusal := range w.Refusals {
		t.Run(name, func(t *testing.T) {
			header := asJSON.Clone()
			maps.Copy(header, refusal.Header)
			want := refusal.Want
			want.Status = refusal.Status
			compare(t, want, w.fails(t, w.serve(t, reply(refusal.Status, header, golden(t, "errors", name+".json")))))
		})
	}
}

func (w Whole[Q, A]) broken(t *testing.T) {
	for name, body := range w.Broken {
		t.Run(name, func(t *testing.T) {
			if e := w.fails(t, w.serve(t, reply(http.StatusOK, asJSON, body))); e.Class != apierr.ClassServerError {
				t.Errorf("error = %v, want a server error", e)
			}
		})
	}
}

func (w Whole[Q, A]) notJSON(t *testing.T) {
	for status, want := range map[int]apierr.Class{
		http.StatusOK: apierr.ClassServerError, http.StatusFound: apierr.ClassServerError, 520: apierr.ClassServerError,
		http.StatusBadGateway: apierr.ClassServerError, http.StatusGatewayTimeout: apierr.ClassTransient,
		http.StatusUnauthorized: apierr.ClassAuth, http.StatusNotFound: apierr.ClassPolicy,
		http.StatusTooManyRequests: apierr.ClassRateLimit,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			header := http.Header{"Content-Type": {"text/html"}, "Location": {"/elsewhere"}}
			if e := w.fails(t, w.serve(t, reply(status, header, "<html>"+Key+"</html>"))); e.Class != want {
				t.Errorf("error = %v, want class %s", e, want)
			}
		})
	}
}

func (w Whole[Q, A]) cut(t *testing.T) {
	body := golden(t, w.Dir, "plain.json")
	begin := reply(http.StatusOK, asJSON, body[:len(body)/2])
	e := w.fails(t, w.serve(t, func(out http.ResponseWriter, r *http.Request) {
		begin(out, r)
		flush(out)
		panic(http.ErrAbortHandler)
	}))
	if e.Class != apierr.ClassTransient {
		t.Errorf("error = %v, want a transient one", e)
	}
}

// cancelled checks that the vendor's call ends with its context, and that the cause is kept.
func (w Whole[Q, A]) cancelled(t *testing.T) {
	left := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan struct{})
	ask := w.serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(left)
		select {
		case <-r.Context().Done():
			close(gone)
		case <-t.Context().Done():
		}
	})
	_, err := ask(ctx, Credential(), w.plain())
	if e := failure(t, err); e.Class != apierr.ClassTransient || !errors.Is(err, left) {
		t.Errorf("error = %v, want a transient one with the cause %q", e, left)
	}
	limit, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	select {
	case <-gone:
	case <-limit.Done():
		t.Error("the call upstream goes on")
	}
}

// keys checks that nothing authenticates without a key, and that a key that no header can carry appears in no error.
func (w Whole[Q, A]) keys(t *testing.T) {
	var sent string
	whole := reply(http.StatusOK, asJSON, golden(t, w.Dir, "plain.json"))
	ask := w.serve(t, func(out http.ResponseWriter, r *http.Request) {
		sent = fmt.Sprint(r.Header)
		whole(out, r)
	})
	if _, err := ask(t.Context(), provider.Credential{}, w.plain()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(sent, "Authorization") || strings.Contains(strings.ToLower(sent), "key") {
		t.Errorf("headers without a key: %s", sent)
	}
	if _, err := ask(t.Context(), Credential(), w.plain()); err != nil || !strings.Contains(sent, Key) {
		t.Errorf("%v, headers with a key: %s", err, sent)
	}
	_, err := ask(t.Context(), provider.Credential{Key: secret.New(Key + "\nX-Other: 1")}, w.plain())
	_ = failure(t, err)
}

func (w Whole[Q, A]) away(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if e := w.fails(t, w.at(t, server.URL)); e.Class != apierr.ClassTransient || e.Status != 0 || strings.Contains(e.Text, "127.0.0.1") {
		t.Errorf("error = %v, want a transient one that names no address", e)
	}
}
