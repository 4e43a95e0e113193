package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := httptest.NewRecorder()
		w := newEventWriter(recorder, 15*time.Second)
		w.data(contentDelta{"a"})
		w.flush()
		time.Sleep(31 * time.Second)
		w.data(contentDelta{"b\n<&"})
		w.flush()
		time.Sleep(14 * time.Second)
		w.done()
		w.close()
		time.Sleep(time.Minute)
		want := "data: {\"content\":\"a\"}\n\n: ping\n\n: ping\n\ndata: {\"content\":\"b\\n<&\"}\n\ndata: [DONE]\n\n"
		if got := recorder.Body.String(); got != want || !recorder.Flushed {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// gone is a response whose reader left.
type gone struct{ *httptest.ResponseRecorder }

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriterKnowsThatTheReaderLeft(t *testing.T) {
	w := newEventWriter(gone{httptest.NewRecorder()}, time.Hour)
	defer w.close()
	if w.failed() {
		t.Error("failed before it wrote")
	}
	w.data(contentDelta{"a"})
	w.flush()
	if !w.failed() {
		t.Error("a write that failed is not seen")
	}
}

// writes is a response that keeps its writes.
type writes struct {
	discard

	texts []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.texts = append(w.texts, string(p))
	return len(p), nil
}

// Events leave in one write when they are flushed, or before they are more than maxWaiting bytes; a larger one leaves by
// itself.
func TestEventsLeaveTogether(t *testing.T) {
	out := &writes{discard: discard{http.Header{}}}
	w := newEventWriter(out, time.Hour)
	defer w.close()
	half, large := strings.Repeat("h", maxWaiting/2), strings.Repeat("l", maxWaiting+1)
	for _, text := range []string{"a", "b", "", half, half, large, "c"} {
		w.send([]byte(text))
	}
	w.flush()
	w.flush()
	if diff := cmp.Diff([]string{"ab" + half, half, large, "c"}, out.texts); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func BenchmarkStreamDelta(b *testing.B) {
	w := newEventWriter(discard{http.Header{}}, time.Hour)
	defer w.close()
	text := strings.Repeat("word ", 4)
	b.ReportAllocs()
	for b.Loop() {
		w.data(contentDelta{text})
		w.flush()
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (discard) Write(p []byte) (int, error)      { return len(p), nil }
func (discard) WriteHeader(int)                  {}
func (discard) Flush()                           {}
func (discard) SetWriteDeadline(time.Time) error { return nil }
