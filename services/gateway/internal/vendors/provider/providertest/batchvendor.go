package providertest

import (
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// mark is the mark of the suite's jobs.
const mark = "sw7mark"

// batchVendor is a vendor of jobs and a provider for it.
type batchVendor struct {
	provider.BatchRunner

	store *BatchStore

	mu    sync.Mutex
	hook  interceptor
	calls []string
}

// interceptor answers a call in the vendor's place where it returns true.
type interceptor func(w http.ResponseWriter, r *http.Request, api http.Handler) bool

// intercept sets the interceptor of the calls from now on.
func (v *batchVendor) intercept(hook interceptor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hook = hook
}

// called returns the calls so far.
func (v *batchVendor) called() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.calls)
}

// record records a call and returns its interceptor, which may be nil.
func (v *batchVendor) record(r *http.Request) interceptor {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls = append(v.calls, r.Method+" "+r.URL.Path)
	return v.hook
}

// serve starts a vendor. wrap changes the transport to it; nil leaves it.
func (b Batches) serve(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *batchVendor {
	t.Helper()
	v := &batchVendor{store: &BatchStore{}}
	api := b.Vendor(v.store)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hook := v.record(r)
		if !slices.ContainsFunc([]string{r.Header.Get("Authorization"), r.Header.Get("X-Api-Key")}, func(value string) bool { return strings.HasSuffix(value, Key) }) {
			t.Errorf("%s %s: called without the key", r.Method, r.URL.Path)
		}
		if hook == nil || !hook(w, r, api) {
			api.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	transport := network.NewTransport(patience)
	t.Cleanup(transport.CloseIdleConnections)
	var to http.RoundTripper = transport
	if wrap != nil {
		to = wrap(transport)
	}
	p, err := b.New(server.URL, to)
	if err != nil {
		t.Fatal(err)
	}
	v.BatchRunner = p
	return v
}

// onePiece delivers the answers of a transport byte by byte.
func onePiece(transport http.RoundTripper) http.RoundTripper {
	return Transport(func(r *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(r)
		if err == nil {
			response.Body = struct {
				io.Reader
				io.Closer
			}{iotest.OneByteReader(response.Body), response.Body}
		}
		return response, err
	})
}

func (b Batches) line(n int) provider.BatchLine {
	return provider.BatchLine{CustomID: mark + "-" + strconv.Itoa(n), Body: json.RawMessage(b.Body)}
}

// theirs is the vendor's name of the model, which the bodies don't have.
const theirs = "their/m"

// job returns a job of n requests.
func (b Batches) job(n int) *provider.BatchJob {
	return &provider.BatchJob{Mark: mark, API: b.API, Model: theirs, Count: n, Lines: b.lines(n, nil)}
}

func (b Batches) lines(n int, end error) iter.Seq2[provider.BatchLine, error] {
	return func(yield func(provider.BatchLine, error) bool) {
		for i := range n {
			if !yield(b.line(i), nil) {
				return
			}
		}
		if end != nil {
			yield(provider.BatchLine{}, end)
		}
	}
}

func isCreation(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/batches")
}

func isResults(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/results") || strings.HasSuffix(r.URL.Path, "/content")
}
