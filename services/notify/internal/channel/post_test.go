package channel_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/platform/netguard"
)

// poster may reach the servers named and nothing else that is not public.
func poster(t *testing.T, timeout time.Duration, allowed ...string) *channel.Poster {
	t.Helper()
	guard, err := netguard.New(netguard.Options{AllowTargets: allowed})
	if err != nil {
		t.Fatal(err)
	}
	p := channel.NewPoster(guard, timeout, nil, 4)
	t.Cleanup(p.Close)
	return p
}

func serve(t *testing.T, h http.HandlerFunc) (url, address string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, s.Listener.Addr().String()
}

func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		handle http.HandlerFunc
		want   channel.Outcome
	}{
		"taken":        {status(204), channel.Delivered(204)},
		"bad request":  {status(400), channel.Failed(channel.ClassClient, 400, "")},
		"gone":         {status(410), channel.Failed(channel.ClassClient, 410, "")},
		"redirect":     {status(302), channel.Failed(channel.ClassRedirect, 302, "")},
		"timeout, 408": {status(408), channel.Retry(channel.ClassClient, 408, 0)},
		"early, 425":   {status(425), channel.Retry(channel.ClassClient, 425, 0)},
		"rate":         {status(429, "Retry-After", "7"), channel.Retry(channel.ClassRate, 429, 7*time.Second)},
		"broken":       {status(500), channel.Retry(channel.ClassServer, 500, 0)},
		"busy":         {status(503, "Retry-After", "2.5"), channel.Retry(channel.ClassServer, 503, 2500*time.Millisecond)},
		"no answer":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, hostFailed(channel.Lost(channel.ClassReset))},
		"silence":      {silence, hostFailed(channel.Lost(channel.ClassTimeout))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, address := serve(t, tt.handle)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got := poster(t, 5*time.Second, address).Post(ctx, url, http.Header{}, []byte("{}")).Outcome()
			if got != tt.want {
				t.Errorf("outcome %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestUnsentIsNoDoubt(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	p := poster(t, time.Second, closed)
	for url, want := range map[string]channel.Outcome{
		"http://" + closed:         hostFailed(channel.Retry(channel.ClassConnect, 0, 0)),
		"http://127.0.0.1:1":       channel.Unsent(channel.Failed(channel.ClassTarget, 0, "")),
		"http://169.254.169.254/":  channel.Unsent(channel.Failed(channel.ClassTarget, 0, "")),
		"http://nowhere.invalid./": {},
	} {
		got := p.Post(t.Context(), url, http.Header{}, nil).Outcome()
		if got.Kind == channel.Unknown || want.Kind != "" && got != want {
			t.Errorf("%s: %+v, want %+v", url, got, want)
		}
	}
}

func TestDetail(t *testing.T) {
	for text, want := range map[string]string{
		"no such user\r\nhere":             "no such user here",
		"token hunter2hunter2 is wrong":    "token [redacted] is wrong",
		"\x00\x1b[31mred\xff":              "[31mred?",
		strings.Repeat("ä", 300):           strings.Repeat("ä", 200),
		"":                                 "",
		"hunter2hunter2hunter2hunter2 end": "[redacted][redacted] end",
	} {
		if got := channel.Detail(text, "hunter2hunter2", ""); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Secrets are looked for once in the text that came, each in its whole length
// and the longest first; one that is too short leaves nothing of the text.
func TestDetailOfManySecrets(t *testing.T) {
	for name, tt := range map[string]struct {
		text    string
		secrets []string
		want    string
	}{
		"one within another":       {"whsec_0123456789", []string{"0123456789", "whsec_0123456789"}, "[redacted]"},
		"one within a replacement": {"a 0123456789", []string{"0123456789", "redacted"}, "a [redacted]"},
		"too short":                {"elsewhere", []string{"e"}, ""},
		"cut within one":           {strings.Repeat(strings.Repeat("s", 1000)+"/", 5), []string{strings.Repeat("s", 1000) + "/"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := channel.Detail(tt.text, tt.secrets...); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func hostFailed(o channel.Outcome) channel.Outcome {
	o.HostFailed = true
	return o
}

// silence reads the request, or its end would not be noticed, and says nothing.
func silence(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// status answers with a status and headers (name, value, ...).
func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}
