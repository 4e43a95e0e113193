package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// Response headers that say how a request was served; metadata over gRPC.
const (
	headerOverhead = "X-Switchyard-Overhead-Ms"
	headerAttempts = "X-Switchyard-Attempts"
	headerProvider = "X-Switchyard-Provider"
	headerModel    = "X-Switchyard-Model"
	// headerWarning warns that the model is deprecated and says until when it is served and what succeeds it.
	headerWarning = "X-Switchyard-Warning"
	// headerHedged names the provider and model whose call was ended because another call of the request answered first.
	headerHedged = "X-Switchyard-Hedged"
	// headerQueue is how long the request waited until limits of tokens or requests had room, in milliseconds.
	headerQueue = "X-Switchyard-Queue-Ms"
)

// inferenceServer serves completions on both faces.
type inferenceServer struct {
	gatewayv1.UnimplementedInferenceServiceServer

	engine Engine
	// decode reads a JSON body into a message of the contract and checks its rules; encode writes a message.
	decode func(r *http.Request, m proto.Message) error
	encode func(m proto.Message) ([]byte, error)
	// files are those that requests may name by their ids; nil for none.
	files Files
}

// Chat serves a chat over gRPC.
func (s *inferenceServer) Chat(ctx context.Context, m *gatewayv1.LlmRequest) (*gatewayv1.LlmResponse, error) {
	if m.GetStream() {
		return nil, apierr.Invalid("stream", "is for the JSON face; call ChatStream")
	}
	request, err := toRequest(ctx, m)
	if err != nil {
		return nil, err
	}
	request.Raw = s.rawOfMessage(m, formChat)
	completion, err := s.engine.Chat(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	annotate(ctx, completion.Route, completion.Report)
	eachHeader(completion.Route, func(name, value string) { rpc.SetHeader(ctx, name, value) })
	return toProto(completion, request.ID), nil
}

// ChatStream streams a chat over gRPC.
func (s *inferenceServer) ChatStream(m *gatewayv1.LlmRequest, out grpc.ServerStreamingServer[gatewayv1.LlmChunk]) error {
	ctx := out.Context()
	request, err := toRequest(ctx, m)
	if err != nil {
		return err
	}
	request.Raw = s.rawOfMessage(m, formChat)
	stream, err := s.engine.StreamChat(ctx, request)
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	defer stream.Close()
	eachHeader(stream.Route(), func(name, value string) { rpc.SetHeader(ctx, name, value) })
	for {
		event, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			annotate(ctx, stream.Route(), stream.Report())
			return out.Send(toLastChunk(stream, request.ID))
		case err != nil:
			annotate(ctx, stream.Route(), stream.Report())
			return err
		}
		if !event.Shown() {
			continue
		}
		if err := out.Send(toChunk(event)); err != nil {
			return err
		}
	}
}

// serveChat serves a chat on the JSON face, whole or as server-sent events.
func (s *inferenceServer) serveChat(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	m := new(gatewayv1.LlmRequest)
	if err := s.decode(r, m); err != nil {
		return err
	}
	request, err := toRequest(ctx, m)
	if err != nil {
		return err
	}
	request.Raw = rawOfHTTP(r, formChat)
	if m.GetStream() {
		return s.serveStream(ctx, w, request, wantsEarly(r))
	}
	completion, err := s.engine.Chat(ctx, request)
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	annotate(ctx, completion.Route, completion.Report)
	eachHeader(completion.Route, inOne(w.Header()))
	text, err := answerJSON(completion, request.ID)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	completion.Wrote(text)
	writeText(w, text)
	return nil
}

func (s *inferenceServer) serveStream(ctx context.Context, w http.ResponseWriter, request *inference.Request, early bool) error {
	var events *eventWriter
	if early {
		events = newEventWriter(w, pingEvery)
		defer events.close()
	}
	stream, err := s.engine.StreamChat(ctx, request)
	if err != nil {
		return lateError(ctx, events, fmt.Errorf("chat: %w", err), func(e *apierr.Error) {
			events.error(apierr.NewDocument(e, request.ID))
		})
	}
	defer stream.Close()
	if events == nil {
		eachHeader(stream.Route(), inOne(w.Header()))
		events = newEventWriter(w, pingEvery)
		defer events.close()
	}
	for {
		event, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			report := stream.Report()
			annotate(ctx, stream.Route(), report)
			events.data(lastChunk{string(stream.FinishReason()), toUsage(report), report.Model, request.ID})
			events.done()
			return nil
		case err != nil: // The response header has been sent: the error is the last event.
			e := apierr.From(err)
			annotate(ctx, stream.Route(), stream.Report())
			rpc.Annotate(ctx, slog.String("stream_reason", string(e.Reason)), slog.String("stream_error", e.Error()))
			events.error(apierr.NewDocument(e, request.ID))
			return nil
		}
		if event.Text != "" {
			events.data(contentDelta{event.Text})
		}
		if len(event.Citations) > 0 {
			events.data(citationsDelta{toCitations(event.Citations)})
		}
		if len(event.Images) > 0 {
			events.data(imagesDelta{toImages(event.Images)})
		}
		if len(event.ToolCalls) > 0 {
			events.data(callsDelta{toCallDeltas(event.ToolCalls)})
		}
		if events.pass(stream); events.failed() {
			return nil // The caller left; Close ends the upstream call and bills what arrived.
		}
	}
}

// annotate adds to the call's log line what an operator asks first.
func annotate(ctx context.Context, route inference.Route, report ledger.Report) {
	rpc.Annotate(ctx,
		slog.String("provider", report.Provider), slog.String("model", report.Model), slog.Int("attempts", route.Attempts),
		slog.Int64("prompt_tokens", report.Prompt), slog.Int64("completion_tokens", report.Completion),
		slog.Int64("cost_pico_usd", int64(report.Cost)), slog.Bool("substituted", report.Substituted),
		slog.Int64("overhead_us", route.Overhead.Microseconds()))
	if route.Hedged != (provider.Target{}) {
		rpc.Annotate(ctx, slog.String("hedged", route.Hedged.String()))
	}
	if route.Queued > 0 {
		rpc.Annotate(ctx, slog.Int64("queue_ms", route.Queued.Milliseconds()))
	}
}

func milliseconds(route inference.Route) float64 {
	return float64(route.Overhead.Microseconds()) / 1000
}

// inOne returns a function that sets headers, by their canonical names, with values that share one slice.
func inOne(h http.Header) func(name, value string) {
	values := make([]string, 0, usualHeaders)
	return func(name, value string) {
		values = append(values, value)
		last := len(values) - 1
		h[name] = values[last : last+1 : last+1]
	}
}

// usualHeaders is the capacity for the headers of one response.
const usualHeaders = 6

func eachHeader(route inference.Route, set func(name, value string)) {
	set(headerOverhead, strconv.FormatFloat(milliseconds(route), 'f', 3, 64))
	set(headerAttempts, strconv.Itoa(route.Attempts))
	set(headerProvider, route.Provider)
	set(headerModel, route.Model)
	if route.Warning != "" {
		set(headerWarning, route.Warning)
	}
	if route.Hedged != (provider.Target{}) {
		set(headerHedged, route.Hedged.String())
	}
	if route.Queued > 0 {
		set(headerQueue, strconv.FormatInt(max(1, route.Queued.Milliseconds()), 10))
	}
	if len(route.Ignored) > 0 {
		set(headerIgnored, ignored(route.Ignored))
	}
}

// writeJSON writes a whole answer. Write errors are ignored: the caller has left.
func writeJSON(w http.ResponseWriter, v any) error {
	text, err := jsontext.Marshal(v)
	if err != nil {
		return err
	}
	writeText(w, text)
	return nil
}

// writeText writes JSON text as a whole answer.
func writeText(w http.ResponseWriter, text []byte) {
	set := inOne(w.Header())
	set("Content-Type", "application/json")
	set("Cache-Control", "no-store")
	set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
	_ = http.NewResponseController(w).Flush() // Metrics and the log line are recorded after the response has been written.
}
