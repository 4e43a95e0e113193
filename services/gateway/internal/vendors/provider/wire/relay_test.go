package wire_test

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// silent reads nothing.
type silent struct{}

func (silent) Read(*wire.Answer) (provider.Event, bool) { return provider.Event{}, false }

// relay makes a call to a vendor that answers with a body of a type.
func relay(tb testing.TB, kind, answer string, call *provider.Relay) (provider.RelayStream, *http.Request, string, error) {
	tb.Helper()
	var sent string
	var request *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent, request = string(body), r
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, answer)
	}))
	tb.Cleanup(server.Close)
	c := caller(0)
	c.Classify = func(e *provider.Error, _ http.Header, body []byte) {
		e.Class, e.Text = apierr.ClassServerError, string(body)
	}
	stream, err := c.Relay(tb.Context(), at(tb, server.URL), http.Header{}, call, silent{})
	return stream, request, sent, err
}

// read returns the frames of an answer, and the error that ended it; nil at its end.
func read(stream provider.RelayStream) (frames []string, err error) {
	defer stream.Close()
	for {
		event, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		if event.Native != nil {
			frames = append(frames, string(event.Native))
		}
	}
}

// A body is sent byte for byte but for the model, and for the stream where that differs.
func TestRelayKeepsTheBody(t *testing.T) {
	for body, want := range map[string]string{
		`{ "a" : 1.0, "model":"x" }`:   `{"model":"ours","a":1.0}`,
		`{"stream":true,"b":"\u00e4"}`: `{"model":"ours","stream":false,"b":"\u00e4"}`,
		`{"Model":"x"}`:                `{"model":"ours"}`,
	} {
		_, _, sent, err := relay(t, "application/json", `{}`, &provider.Relay{Model: "ours", Body: []byte(body)})
		if err != nil || sent != want {
			t.Errorf("%s was sent as %s, err %v; want %s", body, sent, err, want)
		}
	}
	_, _, sent, err := relay(t, "application/json", `{}`, &provider.Relay{Model: "ours", Body: []byte(`{}`), Stream: true})
	if want := `{"model":"ours","stream":true}`; err != nil || sent != want {
		t.Errorf("a stream was requested as %s, err %v; want %s", sent, err, want)
	}
}

// A form keeps its parts, their order and their types; the model is the gateway's.
func TestRelayKeepsTheForm(t *testing.T) {
	parts := []provider.FormPart{
		{Name: "model", Data: []byte("theirs")},
		{Name: "timestamp_granularities[]", Data: []byte("word")},
		{Name: "timestamp_granularities[]", Data: []byte("segment")},
		{Name: "file", FileName: `a "b".wav`, ContentType: "audio/wav", Data: []byte("\xff\x00\r\n--")},
	}
	_, request, sent, err := relay(t, "application/json", `{}`, &provider.Relay{Model: "ours", Parts: parts})
	if err != nil {
		t.Fatal(err)
	}
	if request.ContentLength != int64(len(sent)) {
		t.Errorf("%d bytes were announced and %d sent", request.ContentLength, len(sent))
	}
	_, parameters, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var got []provider.FormPart
	reader := multipart.NewReader(strings.NewReader(sent), parameters["boundary"])
	for {
		part, err := reader.NextRawPart()
		if err != nil {
			break
		}
		data, _ := io.ReadAll(part)
		got = append(got, provider.FormPart{Name: part.FormName(), FileName: part.FileName(), ContentType: part.Header.Get("Content-Type"), Data: data})
	}
	want := append([]provider.FormPart{{Name: "model", Data: []byte("ours")}}, parts[1:]...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// An answer is passed on as it is, whole or in pieces, unless it is an error or not whole.
func TestRelayedAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		kind, answer string
		want         []string
		fails        string
	}{
		"JSON":                  {"application/json", `{"a":1}`, []string{`{"a":1}`}, ""},
		"text":                  {"text/plain", "hello", []string{"hello"}, ""},
		"an error":              {"application/json", `{"error":{"message":"no"}}`, nil, "no"},
		"broken JSON":           {"application/json", `{"a":`, nil, "not valid JSON"},
		"bytes":                 {"audio/mpeg", "\xff\xfb", []string{"\xff\xfb"}, ""},
		"no bytes":              {"audio/mpeg", "", nil, "empty"},
		"events":                {"text/event-stream", "data: {\"type\":\"x.delta\"}\n\ndata: {\"type\":\"x.done\"}\n\n", []string{`{"type":"x.delta"}`, `{"type":"x.done"}`}, ""},
		"an end mark":           {"text/event-stream", "data: {}\n\ndata: [DONE]\n\n", []string{"{}", "[DONE]"}, ""},
		"events that break off": {"text/event-stream", "data: {\"type\":\"x.delta\"}\n\n", []string{`{"type":"x.delta"}`}, "connection"},
		"an error as an event":  {"text/event-stream", "data: {\"error\":{\"message\":\"no\"}}\n\n", nil, "no"},
		"a named error":         {"text/event-stream", "event: error\ndata: {\"message\":\"no\"}\n\n", nil, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			stream, _, _, err := relay(t, c.kind, c.answer, &provider.Relay{Model: "m", Body: []byte("{}")})
			var got []string
			if err == nil {
				got, err = read(stream)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			switch {
			case c.fails == "" && err != nil:
				t.Errorf("err = %v", err)
			case c.fails != "" && !strings.Contains(providertest.ErrorOf(t, err).Text, c.fails):
				t.Errorf("err = %v, want one with %q", err, c.fails)
			}
		})
	}
}

func TestRelayGrowsLinearly(t *testing.T) {
	answers := func(kind string, inputs []growth.Input) []growth.Row {
		return growth.Each(inputs, func(text []byte) {
			transport := answering{kind, text}
			c := caller(0)
			c.Transport = transport
			stream, err := c.Relay(t.Context(), at(t, "http://vendor.example"), http.Header{}, &provider.Relay{Model: "m", Body: []byte("{}")}, silent{})
			if err == nil {
				_, _ = read(stream)
			}
		})
	}
	rows := answers("application/json", growth.JSON)
	rows = append(rows, answers("text/event-stream", append(growth.Around("data: ", growth.ValidJSON, "\n\n"),
		growth.Repeat("events", "", "data: {\"type\":\"a.delta\"}\n\n", "data: [DONE]\n\n"), growth.Repeat("empty events", "", "data:\n\n", "")))...)
	rows = append(rows, answers("audio/mpeg", growth.Text)...)
	rows = append(rows, growth.Each(append(growth.Around(`{"a":`, growth.ValidJSON, "}"), growth.Number("members", `{"a":1`, `,"a#":1`, "}")), func(text []byte) {
		c := caller(0)
		c.Transport = answering{"application/json", []byte("{}")}
		_, _ = c.Relay(t.Context(), at(t, "http://vendor.example"), http.Header{}, &provider.Relay{Model: "m", Body: text}, silent{})
	})...)
	growth.Linear(t, rows...)
}

// answering is a transport whose every answer is the same.
type answering struct {
	kind string
	text []byte
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.kind}},
		ContentLength: int64(len(a.text)), Body: io.NopCloser(bytes.NewReader(a.text)),
	}, nil
}

func FuzzRelay(f *testing.F) {
	f.Add("application/json", []byte(`{"usage":{}}`))
	f.Add("text/event-stream", []byte("data: {\"type\":\"a.done\"}\n\n"))
	f.Add("audio/mpeg", []byte("\xff"))
	f.Fuzz(func(t *testing.T, kind string, text []byte) {
		c := caller(0)
		c.Transport = answering{kind, text}
		stream, err := c.Relay(t.Context(), at(t, "http://vendor.example"), http.Header{}, &provider.Relay{Model: "m", Body: []byte("{}")}, silent{})
		if err == nil {
			_, err = read(stream)
		}
		if err != nil {
			_ = providertest.ErrorOf(t, err)
		}
	})
}
