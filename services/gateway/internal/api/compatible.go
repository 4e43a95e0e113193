package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/anthropic"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/gemini"
	"switchyard.dev/services/gateway/internal/api/mcp"
	"switchyard.dev/services/gateway/internal/api/openai"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/screen"
)

// Headers of the compatible faces.
const (
	// headerDialect names the dialect of a request on a path that several dialects share; the edge sets it.
	headerDialect = "X-Switchyard-Dialect"
	// headerIgnored names the fields that the provider that served the request doesn't support.
	headerIgnored = "X-Switchyard-Ignored"
)

// The cost of a whole answer, for callers whose body has no field for it.
const (
	headerCost        = "X-Switchyard-Cost-Cents"
	headerPrompt      = "X-Switchyard-Prompt-Tokens"
	headerCompletion  = "X-Switchyard-Completion-Tokens"
	headerEstimated   = "X-Switchyard-Estimated"
	headerSubstituted = "X-Switchyard-Substituted"
	headerCacheHit    = "X-Switchyard-Cache-Hit"
)

// Names of the APIs whose SDKs may call in their own form.
const (
	dialectOpenAI    = "openai"
	dialectAnthropic = "anthropic"
	dialectGemini    = "gemini"
	dialectMCP       = "mcp"
)

// DialectOf returns the dialect of a request's caller; see rpc.Options.
func DialectOf(r *http.Request) rpc.Dialect {
	anthropicKey := rpc.Dialect{Name: dialectAnthropic, ErrorBody: anthropic.ErrorBody, KeyHeader: "X-Api-Key", IDHeader: "Request-Id"}
	switch name, path := r.Header.Get(headerDialect), r.URL.Path; {
	case isTool(path):
		return rpc.Dialect{Name: dialectMCP, ErrorBody: mcp.ErrorBody}
	case name == dialectGemini, name == "" && isGemini(r):
		return rpc.Dialect{Name: dialectGemini, ErrorBody: gemini.ErrorBody, KeyHeader: "X-Goog-Api-Key", KeyQuery: "key"}
	case name == dialectAnthropic, name == "" && (path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/")):
		return anthropicKey
	case name == dialectAzure, strings.HasPrefix(path, azureRoot):
		return rpc.Dialect{Name: dialectOpenAI, ErrorBody: openai.ErrorBody, KeyHeader: "Api-Key", IDHeader: "Apim-Request-Id"}
	case name == dialectOpenAI, path == "/v1/chat/completions", path == "/v1/responses", strings.HasPrefix(path, "/v1/responses/"), isRelayOfOpenAI(path), isFileOrBatch(path):
		return rpc.Dialect{Name: dialectOpenAI, ErrorBody: openai.ErrorBody}
	case path != "/v1/models" && !strings.HasPrefix(path, "/v1/models/") && path != "/v1/embeddings" && path != relayedImages.path:
		return rpc.Dialect{}
	case r.Header.Get("Anthropic-Version") != "":
		return anthropicKey
	case r.Header.Get("X-Stainless-Lang") != "": // The official SDKs name themselves.
		return rpc.Dialect{Name: dialectOpenAI, ErrorBody: openai.ErrorBody}
	}
	return rpc.Dialect{}
}

// isFileOrBatch reports whether a path is one of OpenAI's files or batches.
func isFileOrBatch(path string) bool {
	thing, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	return thing == "files" || thing == "batches"
}

// mountCompatible registers the faces for SDKs of other APIs on the server. A model's name may equal one of the
// contract's paths below /v1/models; by-id is for clients that pass on arbitrary names.
func (s *inferenceServer) mountCompatible(server *rpc.Server) {
	const list = gatewayv1.ProviderService_ListProviders_FullMethodName
	server.Handle("POST", "/v1/chat/completions", gatewayv1.InferenceService_Chat_FullMethodName, s.serveDialect(openai.Dialect{}))
	server.Handle("POST", "/v1/messages", gatewayv1.InferenceService_Chat_FullMethodName, s.serveDialect(anthropic.Dialect{}))
	server.Handle("POST", "/v1/messages/count_tokens", gatewayv1.InferenceService_Chat_FullMethodName, s.countTokens)
	server.Handle("GET", "/v1/models/{model=**}", list, s.serveModel)
	server.Handle("GET", "/v1/models/by-id/{model=**}", list, s.serveModel)
	server.Handle("GET", "/v1/models", list, s.serveModels)
	s.mountRelays(server)
	s.mountAzure(server)
}

// serveDialect serves a chat in a dialect's form, whole or streamed.
func (s *inferenceServer) serveDialect(d dialect.Dialect) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := peek(r)
		if err != nil {
			return err
		}
		if d.Name() == dialectOpenAI {
			if body, err = s.withOwnFiles(r, body); err != nil {
				return err
			}
		}
		chat, err := d.Chat(body, r.Header)
		if err != nil {
			return err
		}
		return s.serveNative(w, r, d.Name(), chat, body)
	}
}

// serveNative serves a chat that was read in a dialect's form. body is what a replay reads.
func (s *inferenceServer) serveNative(w http.ResponseWriter, r *http.Request, form string, chat *dialect.Chat, body []byte) error {
	request, err := toNativeRequest(r.Context(), chat, r.Header, nil)
	if err != nil {
		return err
	}
	request.Raw = rawOfHTTP(r, form)
	request.Raw.Body = body
	call := nativeCall{chat, request}
	if chat.Stream {
		return s.streamDialect(r.Context(), w, call, wantsEarly(r))
	}
	completion, err := s.engine.Chat(r.Context(), request)
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	annotate(r.Context(), completion.Route, completion.Report)
	call.headers(w.Header(), completion.Route, completion.Native != nil)
	eachReport(completion.Report, inOne(w.Header()))
	text, err := chat.Writer.Answer(call.reply(completion.Route), completion)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	writeText(w, text)
	return nil
}

// nativeCall is a request in a dialect's form while it is served.
type nativeCall struct {
	chat    *dialect.Chat
	request *inference.Request
}

// reply names the model as the caller did if that one served it: "provider/model" stays so.
func (c nativeCall) reply(route inference.Route) dialect.Reply {
	reply := dialect.Reply{Model: route.Model, IncludeUsage: c.chat.IncludeUsage}
	if c.request.Route.Model == route.Provider+"/"+route.Model {
		reply.Model = c.request.Route.Model
	}
	return reply
}

// headers sets the headers that say who served; native reports whether it was a provider of the dialect.
func (c nativeCall) headers(h http.Header, route inference.Route, native bool) {
	if bound := c.boundElsewhere(route); native && bound != "" && !slices.Contains(route.Ignored, bound) {
		route.Ignored = append([]string{bound}, route.Ignored...)
	}
	eachHeader(route, inOne(h))
}

// boundElsewhere returns the field with reasoning that a provider of the dialect did not get; empty for none.
func (c nativeCall) boundElsewhere(route inference.Route) string {
	if slices.ContainsFunc(c.chat.BoundTo, func(name string) bool { return name != route.Provider }) {
		return "reasoning.encrypted_content"
	}
	return c.chat.BoundElsewhere
}

// ignored returns a bounded list of names for a header, without the caller's own names that may not be repeated.
func ignored(names []string) string {
	const most = 16
	var list []string
	for _, name := range names[:min(len(names), most)] {
		list = append(list, screen.Path(name, "."))
	}
	return strings.Join(list, ", ")
}

func eachReport(report ledger.Report, set func(name, value string)) {
	set(headerCost, report.Cost.InCents())
	set(headerPrompt, strconv.FormatInt(report.Prompt, 10))
	set(headerCompletion, strconv.FormatInt(report.Completion, 10))
	set(headerEstimated, strconv.FormatBool(report.Estimated))
	set(headerSubstituted, strconv.FormatBool(report.Substituted))
	set(headerCacheHit, strconv.FormatBool(report.CacheHit))
}

func (s *inferenceServer) streamDialect(ctx context.Context, w http.ResponseWriter, call nativeCall, early bool) error {
	var events *eventWriter
	out := call.chat.Writer.Stream(call.reply(inference.Route{})) // No provider serves it yet.
	begin := func() {
		events = newEventWriter(w, pingEvery)
		if typed, ok := out.(interface{ ContentType() string }); ok {
			w.Header().Set("Content-Type", typed.ContentType())
		}
		events.pingWith(out.Ping())
	}
	defer func() {
		if events != nil {
			events.close()
		}
	}()
	if early {
		begin()
	}
	stream, err := s.engine.StreamChat(ctx, call.request)
	if err != nil {
		return lateError(ctx, events, fmt.Errorf("chat: %w", err), func(e *apierr.Error) {
			events.send(out.Fail(e, call.request.ID))
			events.flush()
		})
	}
	defer stream.Close()
	route := stream.Route()
	event, err := stream.Next() // Held already, or the end: it doesn't wait.
	out = call.chat.Writer.Stream(call.reply(route))
	if !early {
		call.headers(w.Header(), route, event.Native != nil)
		begin()
	}
	for ; err == nil; event, err = stream.Next() {
		if call.request.Shows(event) {
			events.send(out.Event(event))
		}
		if events.pass(stream); events.failed() {
			return nil // The caller left; Close ends the upstream call and bills what arrived.
		}
	}
	annotate(ctx, route, stream.Report())
	if errors.Is(err, io.EOF) {
		events.send(out.End(stream.FinishReason(), stream.Report()))
		events.flush()
		return nil
	}
	e := apierr.From(err) // The response header has been sent: the error is the last event.
	rpc.Annotate(ctx, slog.String("stream_reason", string(e.Reason)), slog.String("stream_error", e.Error()))
	events.send(out.Fail(e, call.request.ID))
	events.flush()
	return nil
}

// tokenCount is the answer of count_tokens, and what that of input_tokens is made of: the vendor's count where the model is one of the dialect's, else an estimate.
// What other vendors add around texts, tools and images differs between models and is not published for most.
type tokenCount struct {
	InputTokens int64 `json:"input_tokens"`
	Estimated   bool  `json:"estimated"`
}

func (s *inferenceServer) countTokens(w http.ResponseWriter, r *http.Request) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	d := anthropic.Dialect{}
	chat, err := d.Count(body, r.Header)
	if err != nil {
		return err
	}
	count, err := s.count(w, r, chat)
	if err != nil {
		return err
	}
	return writeJSON(w, count)
}

// count returns the tokens of a chat's input, and sets the header that says whether they are an estimate.
func (s *inferenceServer) count(w http.ResponseWriter, r *http.Request, chat *dialect.Chat) (tokenCount, error) {
	request, err := toNativeRequest(r.Context(), chat, r.Header, nil)
	if err != nil {
		return tokenCount{}, err
	}
	tokens, counted, err := s.engine.CountTokens(r.Context(), request)
	if err != nil {
		return tokenCount{}, fmt.Errorf("count tokens: %w", err)
	}
	if !counted {
		tokens = inference.EstimateInput(request)
	}
	w.Header().Set(headerEstimated, strconv.FormatBool(!counted))
	return tokenCount{tokens, !counted}, nil
}

// serveModels lists the models in the caller's dialect.
func (s *inferenceServer) serveModels(w http.ResponseWriter, r *http.Request) error {
	return writeJSON(w, modelsDialect(r).Models(s.engine.Models()))
}

func (s *inferenceServer) serveModel(w http.ResponseWriter, r *http.Request) error {
	name := modelOfPath(r)
	models := s.engine.Models()
	i := slices.IndexFunc(models, func(m provider.Target) bool { return m.Model == name || m.String() == name })
	if i < 0 {
		return apierr.New(apierr.KindNotFound, routing.ReasonModelNotFound, "model: not found; GET /v1/models lists the models")
	}
	found := models[i]
	found.Model = name
	return writeJSON(w, modelsDialect(r).Model(found))
}

// modelsDialect returns the dialect of a request about models: OpenAI's unless a header names another.
func modelsDialect(r *http.Request) dialect.Lister {
	switch DialectOf(r).Name {
	case dialectAnthropic:
		return anthropic.Dialect{}
	case dialectGemini:
		return gemini.Dialect{}
	}
	return openai.Dialect{}
}

// peek returns a body and leaves it to be read again.
func peek(r *http.Request) ([]byte, error) {
	if body := rpc.Body(r); body != nil {
		return body, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}
