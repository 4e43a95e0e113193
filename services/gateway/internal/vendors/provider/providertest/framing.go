package providertest

import (
	"cmp"
	"net/http"
	"testing"
)

// Framing is a way to send the events of a stream. Golden files have them as server-sent events in any case.
type Framing struct {
	MediaType string
	// Encode returns the frames of whole server-sent events.
	Encode func(events string) string
}

func (f Framing) mediaType() string { return cmp.Or(f.MediaType, "text/event-stream") }

// header returns the header of a stream.
func (f Framing) header() http.Header {
	return http.Header{"Content-Type": {f.mediaType() + "; charset=utf-8"}}
}

// frames returns the text of a stream as the vendor sends it.
func (f Framing) frames(events string) string {
	if f.Encode == nil {
		return events
	}
	return f.Encode(events)
}

// stream returns a handler that sends the events of a stream.
func (d Dialect) stream(events string) http.HandlerFunc {
	return reply(http.StatusOK, d.Framing.header(), d.Framing.frames(events))
}

// golden returns the content of a golden file.
func (d Dialect) golden(t *testing.T, dir, name string) string {
	t.Helper()
	return goldenIn(t, d.testdata(), dir, name)
}

func (d Dialect) testdata() string { return cmp.Or(d.Testdata, "testdata") }
