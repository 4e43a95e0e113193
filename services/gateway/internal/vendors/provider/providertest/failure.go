package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// maxText is the length to which a vendor's text is shortened, with the ellipsis.
const maxText = 500 + len("…")

// failure checks what holds for every error: it is a *provider.Error, it is not io.EOF, and its text can be shown and
// contains no key.
func failure(t *testing.T, err error) *provider.Error {
	t.Helper()
	e := ErrorOf(t, err)
	if errors.Is(err, io.EOF) {
		t.Errorf("the failure passes for the end of a stream: %v", err)
	}
	if e.Text == "" || len(e.Text) > maxText {
		t.Errorf("a text of %d bytes, want 1 to %d: %q", len(e.Text), maxText, e.Text)
	}
	if !utf8.ValidString(e.Text) || strings.ContainsAny(e.Text, "\r\n\x00") {
		t.Errorf("the text can't be shown: %q", e.Text)
	}
	testkit.NoLeak(t, Key, err.Error(), e.Text, e.Code, fmt.Sprintf("%+v", *e))
	return e
}

// both requests a chat whole and streamed, and checks the failure of each.
func both(t *testing.T, p provider.ChatProvider, check func(*testing.T, *provider.Error)) {
	t.Helper()
	t.Run("whole", func(t *testing.T) {
		_, err := p.Chat(t.Context(), Credential(), question())
		check(t, failure(t, err))
	})
	t.Run("streamed", func(t *testing.T) {
		_, err := ask(t, p)
		check(t, failure(t, err))
	})
}

// ask requests a stream and reads it to the end.
func ask(t *testing.T, p provider.ChatProvider) (*provider.Answer, error) {
	t.Helper()
	stream, err := p.StreamChat(t.Context(), Credential(), question())
	if err != nil {
		return nil, err
	}
	return Collect(stream)
}

func compare(t *testing.T, want provider.Error, got *provider.Error) {
	t.Helper()
	ignored := []string{"Cause"}
	if want.Text == "" {
		ignored = append(ignored, "Text")
	}
	if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(provider.Error{}, ignored...)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func (d Dialect) refusals(t *testing.T) {
	for name, refusal := range d.Refusals {
		t.Run(name, func(t *testing.T) {
			header := asJSON.Clone()
			maps.Copy(header, refusal.Header)
			p := d.serve(t, reply(refusal.Status, header, d.golden(t, "errors", name+".json")))
			want := refusal.Want
			want.Status = refusal.Status
			both(t, p, func(t *testing.T, got *provider.Error) { t.Helper(); compare(t, want, got) })
		})
	}
}

func (d Dialect) streamErrors(t *testing.T) {
	for name, want := range d.StreamErrors {
		t.Run(name, func(t *testing.T) {
			p := d.serve(t, d.stream(d.golden(t, "errors", name+".sse")))
			_, err := ask(t, p)
			compare(t, want, failure(t, err))
		})
	}
}

// notJSON sends pages of intermediaries, and JSON of something else.
func (d Dialect) notJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		want   apierr.Class
	}{
		"a page with 200":  {http.StatusOK, "<html>It works</html>", apierr.ClassServerError},
		"a page with 502":  {http.StatusBadGateway, "<html>Bad gateway " + Key + "</html>", apierr.ClassServerError},
		"a CDN's own 520":  {520, "", apierr.ClassServerError},
		"nothing with 200": {http.StatusOK, "", apierr.ClassServerError},
		"other JSON":       {http.StatusOK, "{}", apierr.ClassServerError},
		"a list":           {http.StatusInternalServerError, "[]", apierr.ClassServerError},
		"401":              {http.StatusUnauthorized, "no", apierr.ClassAuth},
		"404":              {http.StatusNotFound, "404 page not found", apierr.ClassPolicy},
		"408":              {http.StatusRequestTimeout, "", apierr.ClassTransient},
		"429":              {http.StatusTooManyRequests, "", apierr.ClassRateLimit},
		"504":              {http.StatusGatewayTimeout, "", apierr.ClassTransient},
		"a redirect":       {http.StatusFound, "", apierr.ClassServerError},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"Content-Type": {"text/html"}, "Location": {"/elsewhere"}}
			both(t, d.serve(t, reply(tt.status, header, tt.body)), func(t *testing.T, got *provider.Error) {
				t.Helper()
				if got.Class != tt.want || (got.Status != tt.status && got.Status != 0) {
					t.Errorf("error = %v, want class %s", got, tt.want)
				}
			})
		})
	}
}

// cutStreams checks that no beginning of a stream passes for the whole, whether the connection breaks or ends normally.
func (d Dialect) cutStreams(t *testing.T) {
	for _, name := range []string{"text", "parallel_tools"} {
		want, events := *d.Answers[name], strings.SplitAfter(d.golden(t, "answers", name+".sse"), "\n\n")
		for i := range len(events) - 1 { // after the last blank line comes nothing
			for way, end := range map[string]func(){"ends": func() {}, "breaks": func() { panic(http.ErrAbortHandler) }} {
				t.Run(fmt.Sprintf("%s %s after %d events", name, way, i), func(t *testing.T) {
					begin := d.stream(strings.Join(events[:i], ""))
					got, err := ask(t, d.serve(t, func(w http.ResponseWriter, r *http.Request) {
						begin(w, r)
						flush(w)
						end()
					}))
					if err == nil {
						ignored := cmpopts.IgnoreFields(provider.Answer{}, "Model", "Usage")
						if diff := cmp.Diff(&want, got, ignored, cmpopts.EquateEmpty()); diff != "" {
							t.Errorf("a part passes for the whole (-want +got):\n%s", diff)
						}
						return
					}
					if e := failure(t, err); e.Class != apierr.ClassTransient || e.Status != 0 {
						t.Errorf("error = %v, want a transient one without a status", e)
					}
				})
			}
		}
	}
}

// notStream checks that a whole answer is not accepted as a stream.
func (d Dialect) notStream(t *testing.T) {
	p := d.serve(t, reply(http.StatusOK, asJSON, d.golden(t, "answers", "text.json")))
	_, err := ask(t, p)
	compare(t, provider.Error{Class: apierr.ClassServerError}, failure(t, err))
}

func (d Dialect) cutAnswer(t *testing.T) {
	body := d.golden(t, "answers", "text.json")
	begin := reply(http.StatusOK, asJSON, body[:len(body)/2])
	p := d.serve(t, func(w http.ResponseWriter, r *http.Request) {
		begin(w, r)
		flush(w)
		panic(http.ErrAbortHandler)
	})
	_, err := p.Chat(t.Context(), Credential(), question())
	if e := failure(t, err); e.Class != apierr.ClassTransient {
		t.Errorf("error = %v, want a transient one", e)
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// noKey checks that nothing authenticates without a key, and that a key is sent.
func (d Dialect) noKey(t *testing.T) {
	var sent string
	whole := d.either(t, "text")
	p := d.serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = fmt.Sprint(r.Header)
		whole(w, r)
	})
	if _, err := p.Chat(t.Context(), provider.Credential{}, question()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(sent, "Authorization") || strings.Contains(strings.ToLower(sent), "key") {
		t.Errorf("headers without a key: %s", sent)
	}
	if _, err := p.Chat(t.Context(), Credential(), question()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(sent, Key) {
		t.Errorf("headers with a key: %s", sent)
	}
}

// receipts checks that the vendor's own ID of a call is known, whatever the result of the call.
func (d Dialect) receipts(t *testing.T) {
	const id = "vendor-4711"
	for name, answer := range map[string]http.HandlerFunc{
		"an answer": d.either(t, "text"), "a refusal": reply(http.StatusBadRequest, asJSON, "{}"), "a page": reply(http.StatusOK, nil, "<html>"),
	} {
		p := d.serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", id)
			answer(w, r)
		})
		for way, call := range map[string]func(context.Context, provider.ChatProvider) error{"whole": chat, "streamed": streamChat} {
			var receipt provider.Receipt
			_ = call(provider.WithReceipt(t.Context(), &receipt), p)
			if receipt.ID() != id {
				t.Errorf("%s, %s: %q", name, way, receipt.ID())
			}
		}
	}
}

// brokenKey checks that a key that no header can carry appears in no error.
func (d Dialect) brokenKey(t *testing.T) {
	p := d.serve(t, d.either(t, "text"))
	credential := provider.Credential{Key: secret.New(Key + "\nX-Other: 1")}
	_, err := p.Chat(t.Context(), credential, question())
	_ = failure(t, err)
	_, err = p.StreamChat(t.Context(), credential, question())
	_ = failure(t, err)
}

func (d Dialect) away(t *testing.T) {
	p, server := d.serveOn(t, httptest.NewUnstartedServer(http.NotFoundHandler()))
	server.Close()
	both(t, p, func(t *testing.T, got *provider.Error) {
		t.Helper()
		if got.Class != apierr.ClassTransient || got.Status != 0 || strings.Contains(got.Text, "127.0.0.1") {
			t.Errorf("error = %v, want a transient one that names no address", got)
		}
	})
}

// cancelled checks that the vendor's call ends with its context, and that the cause is kept.
func (d Dialect) cancelled(t *testing.T) {
	first, _, _ := strings.Cut(d.golden(t, "answers", "text.sse"), "\n\n")
	for name, tt := range map[string]struct {
		begin http.HandlerFunc
		call  func(context.Context, provider.ChatProvider) error
	}{
		"waiting for the answer": {func(http.ResponseWriter, *http.Request) {}, chat},
		"waiting for the stream": {func(http.ResponseWriter, *http.Request) {}, streamChat},
		"in the answer":          {reply(http.StatusOK, asJSON, "{"), chat},
		"in the stream":          {d.stream(first + "\n\n"), streamChat},
	} {
		t.Run(name, func(t *testing.T) {
			arrived, gone := make(chan struct{}), make(chan struct{})
			p := d.serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				tt.begin(w, r)
				if name[:2] == "in" {
					flush(w)
				}
				close(arrived)
				select {
				case <-r.Context().Done():
					close(gone)
				case <-t.Context().Done():
				}
			})
			left := errors.New("the caller left")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			failed := make(chan error, 1)
			go func() { failed <- tt.call(ctx, p) }()
			<-arrived
			cancel(left)
			limit, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			select {
			case <-gone:
			case <-limit.Done():
				t.Fatal("the call upstream goes on")
			}
			err := <-failed
			if e := failure(t, err); e.Class != apierr.ClassTransient || !errors.Is(err, left) {
				t.Errorf("error = %v, want a transient one with the cause %q", e, left)
			}
		})
	}
}

func chat(ctx context.Context, p provider.ChatProvider) error {
	_, err := p.Chat(ctx, Credential(), question())
	return err
}

func streamChat(ctx context.Context, p provider.ChatProvider) error {
	stream, err := p.StreamChat(ctx, Credential(), question())
	if err == nil {
		_, err = Collect(stream)
	}
	return err
}

func countNew(mu *sync.Mutex, seen map[string]bool) func(net.Conn, http.ConnState) {
	return func(connection net.Conn, state http.ConnState) {
		if state == http.StateNew {
			mu.Lock()
			defer mu.Unlock()
			seen[connection.RemoteAddr().String()] = true
		}
	}
}
