package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/api/rerank"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// relayed is a call of another API that is relayed to providers which have it.
type relayed struct {
	// path of the call, and the gRPC method whose roles may make it.
	path, method string
	// form is the name of captured requests.
	form string
	read func(dialect.Source) (*dialect.Call, error)
	// takesForm reports whether the body may be a form of several parts.
	takesForm bool
}

// relayedImages is a request for images with fields that the contract doesn't have, on the contract's own path.
var relayedImages = relayed{
	path: "/v1/images/generations", method: gatewayv1.InferenceService_GenerateImages_FullMethodName,
	form: "openai_images", read: openai.Images,
}

var relays = []relayed{
	{path: "/v1/completions", method: gatewayv1.InferenceService_Chat_FullMethodName, form: "openai_completions", read: openai.Completion},
	{path: "/v1/moderations", method: gatewayv1.InferenceService_Chat_FullMethodName, form: "openai_moderations", read: openai.Moderation},
	{path: "/v1/audio/speech", method: gatewayv1.InferenceService_Chat_FullMethodName, form: "openai_speech", read: openai.Speech},
	{
		path: "/v1/audio/transcriptions", method: gatewayv1.InferenceService_Chat_FullMethodName,
		form: "openai_transcriptions", read: openai.Transcription, takesForm: true,
	},
	{
		path: "/v1/audio/translations", method: gatewayv1.InferenceService_Chat_FullMethodName,
		form: "openai_translations", read: openai.Translation, takesForm: true,
	},
	{
		path: "/v1/images/edits", method: gatewayv1.InferenceService_GenerateImages_FullMethodName,
		form: "openai_image_edits", read: openai.ImageEdit, takesForm: true,
	},
	{
		path: "/v1/images/variations", method: gatewayv1.InferenceService_GenerateImages_FullMethodName,
		form: "openai_image_variations", read: openai.ImageVariation, takesForm: true,
	},
	{path: "/v1/rerank", method: gatewayv1.InferenceService_Embed_FullMethodName, form: "rerank", read: rerank.Jina},
	{path: "/v2/rerank", method: gatewayv1.InferenceService_Embed_FullMethodName, form: "cohere_rerank", read: rerank.Cohere},
}

// isRelayOfOpenAI reports whether a path is one of OpenAI's calls that are relayed.
func isRelayOfOpenAI(path string) bool {
	return slices.ContainsFunc(relays, func(c relayed) bool { return c.path == path && strings.HasPrefix(c.form, dialectOpenAI) })
}

// relayOfForm returns the call whose captured requests have a form; nil for none.
func relayOfForm(form string) *relayed {
	all := append([]relayed{relayedImages}, relays...)
	if i := slices.IndexFunc(all, func(c relayed) bool { return c.form == form }); i >= 0 {
		return &all[i]
	}
	return nil
}

func (s *inferenceServer) mountRelays(server *rpc.Server) {
	for _, call := range relays {
		mount := server.Handle
		if call.takesForm {
			mount = server.HandleForm
		}
		mount("POST", call.path, call.method, func(w http.ResponseWriter, r *http.Request) error { return s.serveRelay(w, r, call) })
	}
}

// request returns the request of a call; change modifies its extension, nil is none.
func (c *relayed) request(ctx context.Context, source dialect.Source, header http.Header, change func(*extension)) (*inference.Request, error) {
	call, err := c.read(source)
	if err != nil {
		return nil, err
	}
	e, err := readExtension(call.Extension, header)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(e)
	}
	m := e.message(call.Model, nil)
	if err := ScreenMessage(m); err != nil {
		return nil, err
	}
	if err := rpc.Validate(m); err != nil {
		return nil, err
	}
	request, err := newRequest(ctx, call.Relay.Operation, m, m.AllowSubstitution)
	if err != nil {
		return nil, err
	}
	request.Relay = &call.Relay
	return request, nil
}

// parse returns a captured request. The files of a form are not captured.
func (c *relayed) parse(ctx context.Context, raw trace.RawRequest, run string) (*inference.Request, error) {
	if c.takesForm {
		return nil, apierr.New(apierr.KindUnprocessable, apierr.ReasonUnprocessable,
			"request_id: the request held files, which are not kept, and can't be issued again")
	}
	source := dialect.Source{ContentType: "application/json", Body: raw.Body}
	request, err := c.request(ctx, source, raw.Header, func(e *extension) { e.RunID = run })
	if err == nil {
		request.Relay.Stream = false
	}
	return request, err
}

func (s *inferenceServer) serveRelay(w http.ResponseWriter, r *http.Request, c relayed) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	request, err := c.request(r.Context(), dialect.Source{ContentType: r.Header.Get("Content-Type"), Body: body}, r.Header, nil)
	if err != nil {
		return err
	}
	request.Raw = rawOfHTTP(r, c.form)
	request.Raw.Body = body
	if request.Relay.Parts != nil {
		request.Raw.Body, request.Raw.Encode = nil, formSummary(request)
	}
	stream, err := s.engine.Relay(r.Context(), request)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	defer stream.Close()
	eachHeader(stream.Route(), inOne(w.Header()))
	w.Header().Set("Content-Type", shownType(stream.ContentType()))
	switch {
	case stream.Whole():
		return writeRelayed(r.Context(), w, stream)
	case strings.HasPrefix(stream.ContentType(), "text/event-stream"):
		return relayEvents(r.Context(), w, stream, request.ID)
	}
	return relayBytes(r.Context(), w, stream)
}

// shownType returns the media type that an answer is sent with: its vendor's, unless a browser would run such a document.
func shownType(vendors string) string {
	media, _, err := mime.ParseMediaType(vendors)
	switch {
	case err != nil:
		return "application/octet-stream"
	case strings.HasPrefix(media, "audio/"), media == "application/json", media == "text/event-stream",
		media == "text/plain", media == "text/vtt", media == "text/srt", media == "application/x-subrip":
		return vendors
	case strings.HasPrefix(media, "text/"):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// formSummary returns the JSON that is captured of a form: its fields, and the names and sizes of its files.
func formSummary(request *inference.Request) func() (json.RawMessage, error) {
	type part struct {
		Name  string `json:"name"`
		Value string `json:"value,omitempty"`
		File  string `json:"file,omitempty"`
		Bytes int    `json:"bytes,omitempty"`
	}
	var parts []part
	for _, p := range request.Relay.Parts {
		shown := part{Name: p.Name, File: p.FileName, Bytes: len(p.Data)}
		if p.FileName == "" {
			shown.Value, shown.Bytes = string(p.Data), 0
		}
		parts = append(parts, shown)
	}
	return func() (json.RawMessage, error) { return json.Marshal(map[string]any{"parts": parts}) }
}

// relayedWhole returns a whole answer, once it is billed.
func relayedWhole(stream *inference.Stream) ([]byte, error) {
	var text []byte
	for {
		event, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		case event.Native != nil:
			text = event.Native
		}
	}
}

func writeRelayed(ctx context.Context, w http.ResponseWriter, stream *inference.Stream) error {
	text, err := relayedWhole(stream)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	annotate(ctx, stream.Route(), stream.Report())
	eachReport(stream.Report(), inOne(w.Header()))
	_, _ = w.Write(text) // shownType leaves no type that a browser renders.
	return nil
}

// relayEvents passes events on as they come.
func relayEvents(ctx context.Context, w http.ResponseWriter, stream *inference.Stream, requestID string) error {
	events := newEventWriter(w, pingEvery)
	defer events.close()
	event, err := stream.Next()
	for ; err == nil; event, err = stream.Next() {
		if event.Native != nil {
			events.send(dialect.AppendData(nil, event.NativeType, event.Native))
		}
		if events.pass(stream); events.failed() {
			return nil // The caller left; Close ends the upstream call and bills what arrived.
		}
	}
	annotate(ctx, stream.Route(), stream.Report())
	if !errors.Is(err, io.EOF) {
		e := apierr.From(err)
		rpc.Annotate(ctx, slog.String("stream_reason", string(e.Reason)), slog.String("stream_error", e.Error()))
		events.error(openai.ErrorBody(e, requestID))
	}
	events.flush()
	return nil
}

// relayBytes passes sound on as it comes, with its cost in trailers. An answer that breaks off ends the connection: its
// caller could not tell otherwise.
func relayBytes(ctx context.Context, w http.ResponseWriter, stream *inference.Stream) error {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	event, err := stream.Next()
	for ; err == nil; event, err = stream.Next() {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))
		if _, failed := w.Write(event.Native); failed != nil || control.Flush() != nil {
			return nil // The caller left; Close ends the upstream call and bills what arrived.
		}
	}
	annotate(ctx, stream.Route(), stream.Report())
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("relay: %w", err)
	}
	eachReport(stream.Report(), func(name, value string) { w.Header().Set(http.TrailerPrefix+name, value) })
	return nil
}

// replayRelay makes a captured call again, whose answer must be JSON to be shown.
func (s *inferenceServer) replayRelay(ctx context.Context, r *inference.Request) (json.RawMessage, ledger.Report, error) {
	stream, err := s.engine.Relay(ctx, r)
	if err != nil {
		return nil, ledger.Report{}, err
	}
	defer stream.Close()
	if !stream.Whole() || !strings.HasPrefix(stream.ContentType(), "application/json") {
		return nil, ledger.Report{}, apierr.New(apierr.KindUnprocessable, apierr.ReasonUnprocessable, "request_id: the answer is not JSON and can't be shown")
	}
	text, err := relayedWhole(stream)
	if err != nil {
		return nil, ledger.Report{}, err
	}
	annotate(ctx, stream.Route(), stream.Report())
	return text, stream.Report(), nil
}
