package providertest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
)

// Native is a native body and the expected request.
type Native struct {
	// Dialect is the dialect of the body.
	Dialect string
	// Body asks for another model than "model", contains Unknown, and requests everything that a stream may contain.
	Body string
	// Unknown is a part of Body that the gateway's fields don't hold, as it has to be sent.
	Unknown string
	// Mark is the data of the frame that ends a stream and is not returned; may be empty.
	Mark string
	// InURL reports whether the URL names the model and the body doesn't.
	InURL bool
}

// Frame is a frame of a native stream.
type Frame struct{ Type, Data string }

// Frames reads a native stream to its end and closes it.
func Frames(stream provider.Stream) ([]Frame, *provider.Answer, error) {
	r := &recorder{Stream: stream}
	answer, err := Collect(r)
	return r.frames, answer, err
}

type recorder struct {
	provider.Stream
	frames []Frame
}

func (r *recorder) Next() (provider.Event, error) {
	event, err := r.Stream.Next()
	if event.Native != nil {
		r.frames = append(r.frames, Frame{event.NativeType, string(event.Native)})
	}
	return event, err
}

// frames returns the frames of a stream's text, except the end mark.
func (n Native) frames(t *testing.T, text string) []Frame {
	t.Helper()
	var frames []Frame
	events := sse.NewReader(strings.NewReader(text))
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		if data := string(event.Data); data != n.Mark {
			frames = append(frames, Frame{event.Name, data})
		}
	}
}

// native checks that the caller's own body is sent with the model replaced, that the answer is relayed byte for byte,
// and that it has the same parsed content.
func (d Dialect) native(t *testing.T) {
	asked := question()
	asked.Native = &provider.Native{Dialect: d.Native.Dialect, Body: []byte(d.Native.Body)}
	for name, want := range d.Answers {
		t.Run(name, func(t *testing.T) {
			var sent string
			answer := d.either(t, name)
			p := d.serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent = string(body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				answer(w, r)
			})
			Answers(t, p, asked, want)
			whole, err := p.Chat(t.Context(), Credential(), asked)
			if err != nil {
				t.Fatal(err)
			}
			d.nativeBody(t, sent)
			if diff := cmp.Diff(d.golden(t, "answers", name+".json"), string(whole.Native)); diff != "" {
				t.Errorf("the answer changed on its way (-sent +got):\n%s", diff)
			}
			stream, err := p.StreamChat(t.Context(), Credential(), asked)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := Frames(stream)
			if err != nil {
				t.Fatal(err)
			}
			d.nativeBody(t, sent)
			if diff := cmp.Diff(d.Native.frames(t, d.golden(t, "answers", name+".sse")), got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the frames changed on their way (-sent +got):\n%s", diff)
			}
		})
	}
	t.Run("of another dialect", d.foreign)
}

func (d Dialect) nativeBody(t *testing.T, sent string) {
	t.Helper()
	if d.Native.InURL {
		if strings.Contains(sent, `"model":`) || !strings.Contains(sent, d.Native.Unknown) {
			t.Errorf("sent %s, want no model and %s kept", sent, d.Native.Unknown)
		}
		return
	}
	if !strings.Contains(sent, `"model":"model"`) || strings.Count(sent, `"model":`) != 1 || !strings.Contains(sent, d.Native.Unknown) {
		t.Errorf("sent %s, want the model replaced and %s kept", sent, d.Native.Unknown)
	}
}

// foreign checks that a body in another dialect is not sent, and that nothing native is returned.
func (d Dialect) foreign(t *testing.T) {
	answer := d.either(t, "text")
	p := d.serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "foreign body") {
			t.Errorf("sent %s", body)
		}
		r.Body = http.NoBody
		answer(w, r)
	})
	asked := question()
	asked.Native = &provider.Native{Dialect: "another", Body: []byte(`{"model":"foreign body"}`)}
	whole, err := p.Chat(t.Context(), Credential(), asked)
	if err != nil || whole.Native != nil {
		t.Errorf("%+v, %v, want nothing native", whole, err)
	}
	stream, err := p.StreamChat(t.Context(), Credential(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if frames, _, err := Frames(stream); err != nil || frames != nil {
		t.Errorf("%v, %v, want nothing native", frames, err)
	}
}
