package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	tests := map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"none":                    {http.Header{}, 0},
		"seconds":                 {http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"fraction":                {http.Header{"Retry-After": {" 0.25 "}}, 250 * time.Millisecond},
		"milliseconds win":        {http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"120"}}, 120 * time.Millisecond},
		"Azure's milliseconds":    {http.Header{"X-Ms-Retry-After-Ms": {"80"}}, 80 * time.Millisecond},
		"date":                    {http.Header{"Retry-After": {"Sat, 21 Nov 2026 12:00:30 GMT"}}, 30 * time.Second},
		"date, RFC 850":           {http.Header{"Retry-After": {"Saturday, 21-Nov-26 12:00:30 GMT"}}, 30 * time.Second},
		"date passed":             {http.Header{"Retry-After": {"Sat, 21 Nov 2026 11:59:00 GMT"}}, 0},
		"a day is capped":         {http.Header{"Retry-After": {"86400"}}, wire.MaxRetryAfter},
		"beyond any int":          {http.Header{"Retry-After": {"1e300"}}, wire.MaxRetryAfter},
		"negative":                {http.Header{"Retry-After": {"-1"}}, 0},
		"not a number":            {http.Header{"Retry-After": {"NaN"}}, 0},
		"garbage":                 {http.Header{"Retry-After": {"soon"}}, 0},
		"Azure's zero is no hint": {http.Header{"Retry-After-Ms": {"0"}, "Retry-After": {"2"}}, 2 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := wire.RetryAfter(tt.header, noon); got != tt.want {
				t.Errorf("RetryAfter = %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "0.5", "-3", "Inf", "Sat, 21 Nov 2026 12:00:30 GMT", "1e999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if got := wire.RetryAfter(http.Header{"Retry-After": {value}}, noon); got < 0 || got > wire.MaxRetryAfter {
			t.Errorf("%q: %v", value, got)
		}
	})
}

// at returns the URL of a test server.
func at(tb testing.TB, raw string) *url.URL {
	tb.Helper()
	base, err := wire.Base(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return base
}

// A base URL is an address without a key.
func TestBase(t *testing.T) {
	for raw, want := range map[string]string{
		"https://vendor.example/v1/": "https://vendor.example/v1", "http://127.0.0.1:8000": "http://127.0.0.1:8000",
		"vendor.example": "absolute", "ftp://vendor.example": "absolute", "https://": "absolute", "https://%zz": "absolute",
		"https://user:pass@vendor.example": "key file", "https://user@vendor.example": "key file", "https://vendor.example/?key=k": "key file",
	} {
		base, err := wire.Base(raw)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %q", raw, err, want)
			}
			continue
		}
		if base.String() != want {
			t.Errorf("%s: %v, want %s", raw, base, want)
		}
	}
}

func caller(status int) *wire.Caller {
	return &wire.Caller{
		Transport: network.NewTransport(time.Second), Now: func() time.Time { return noon }, KeyHeader: "Authorization",
		Classify: func(e *provider.Error, _ http.Header, body []byte) {
			e.Class, e.Text = apierr.ClassServerError, string(body)
			if e.Status != status {
				e.Text = "wrong status"
			}
		},
	}
}

// A whole answer is read as it is, whatever the vendor says of its length, unless it
// announces more than there may be.
func TestRead(t *testing.T) {
	for size := range map[int]bool{0: true, 1: true, 8 << 10: true, 100_000: true, 5 << 20: true} {
		want := strings.Repeat("x", size)
		for announced := range map[int64]bool{-1: true, int64(size): true, 40 << 20: true, 3: true} {
			response := &http.Response{ContentLength: announced, Body: io.NopCloser(strings.NewReader(want))}
			if got, err := wire.Read(t.Context(), response); err != nil || string(got) != want {
				t.Errorf("%d bytes announced as %d: %d bytes, err %v", size, announced, len(got), err)
			}
		}
	}
	absurd := &http.Response{ContentLength: 1 << 40, Body: io.NopCloser(neverEnding{})}
	if _, err := wire.Read(t.Context(), absurd); providertest.ErrorOf(t, err).Class != apierr.ClassServerError {
		t.Errorf("an answer that announces a terabyte: %v", err)
	}
	endless := &http.Response{ContentLength: -1, Body: io.NopCloser(neverEnding{})}
	if _, err := wire.Read(t.Context(), endless); providertest.ErrorOf(t, err).Class != apierr.ClassServerError {
		t.Errorf("an endless answer: %v", err)
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

// An answer of known length is read without a second buffer.
func BenchmarkRead(b *testing.B) {
	text := strings.Repeat("x", 100_000)
	b.ReportAllocs()
	for b.Loop() {
		response := &http.Response{ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}
		if _, err := wire.Read(context.Background(), response); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPostTypesRefusals(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.Header().Set("Location", "http://169.254.169.254/")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, "moved\r\n"+strings.Repeat("ü", 400))
	}))
	defer server.Close()
	_, err := caller(307).Post(t.Context(), at(t, server.URL), http.Header{}, map[string]int{}) //nolint:bodyclose // It fails.
	e := providertest.ErrorOf(t, err)
	if e.Status != 307 || e.RetryAfter != 3*time.Second {
		t.Errorf("status %d, retry after %v; want 307 and 3s", e.Status, e.RetryAfter)
	}
	if !strings.HasPrefix(e.Text, "moved  ü") || len(e.Text) > 510 {
		t.Errorf("a text of %d bytes, want at most 510 that begin with moved: %q", len(e.Text), e.Text)
	}
}

func TestPostTypesBrokenConnections(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := caller(0).Post(t.Context(), at(t, server.URL), http.Header{}, nil) //nolint:bodyclose // It fails.
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Class != apierr.ClassTransient || strings.Contains(e.Text, "127.0.0.1") {
		t.Errorf("err = %#v", err)
	}

	left := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	_, err = caller(0).Post(ctx, at(t, server.URL), http.Header{}, nil) //nolint:bodyclose // It fails.
	if !errors.Is(err, left) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// Finish doesn't wait for a vendor that holds back the end of its stream.
func TestFinishDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, vendor := io.Pipe()
		if err := wire.Finish(body); err != nil {
			t.Error(err)
		}
		if _, err := vendor.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the body is open: %v", err)
		}
	})
}

// The rest after the last event is read to keep the connection, within bounds.
func TestFinishReadsTheRest(t *testing.T) {
	for rest, left := range map[int]int{0: 0, 4096: 0, 5000: 5000 - 4096} {
		body := strings.NewReader(strings.Repeat("x", rest))
		if err := wire.Finish(io.NopCloser(body)); err != nil || body.Len() != left {
			t.Errorf("%d bytes: %d left, err %v", rest, body.Len(), err)
		}
	}
}
