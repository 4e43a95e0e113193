package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/gemini"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// Paths of Google's API; a model's method follows a colon. @google/genai calls geminiStable by default from version 3
// on, and geminiModels before.
const (
	geminiModels = "/v1beta/models"
	geminiStable = "/v1/models"
)

// mountGemini registers the face for Google's SDKs on the server.
func (s *inferenceServer) mountGemini(server *rpc.Server) {
	const (
		chat, embed = gatewayv1.InferenceService_Chat_FullMethodName, gatewayv1.InferenceService_Embed_FullMethodName
		list        = gatewayv1.ProviderService_ListProviders_FullMethodName
	)
	for _, root := range []string{geminiModels, geminiStable} {
		model := root + "/{model=**}"
		server.Handle("POST", model+":generateContent", chat, s.generateContent)
		server.Handle("POST", model+":streamGenerateContent", chat, s.streamGenerateContent)
		server.Handle("POST", model+":embedContent", embed, s.embedContent)
		server.Handle("POST", model+":batchEmbedContents", embed, s.embedContent)
		server.Handle("POST", model+":countTokens", list, s.countContent)
	}
	server.Handle("GET", geminiModels+"/{model=**}", list, s.serveModel)
	server.Handle("GET", geminiModels, list, s.serveModels)
}

// isGemini reports whether a request that names no dialect is in Google's form. Its path decides; on the shared paths
// that list models, a header that only Google's SDKs send does.
func isGemini(r *http.Request) bool {
	path := r.URL.Path
	if path == geminiModels || strings.HasPrefix(path, geminiModels+"/") {
		return true
	}
	name, below := strings.CutPrefix(path, geminiStable+"/")
	if r.Method == http.MethodPost {
		return below && strings.Contains(name, ":")
	}
	return (below || path == geminiStable) && (r.Header.Get("X-Goog-Api-Key") != "" || r.Header.Get("X-Goog-Api-Client") != "")
}

// modelOfPath returns the model that a path names. Slashes in it may be escaped.
func modelOfPath(r *http.Request) string {
	name := r.PathValue("model")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

func (s *inferenceServer) generateContent(w http.ResponseWriter, r *http.Request) error {
	return s.serveContent(w, r, gemini.Call{Model: modelOfPath(r)})
}

// streamGenerateContent answers with server-sent events, or with an array of JSON where the caller doesn't ask for them.
func (s *inferenceServer) streamGenerateContent(w http.ResponseWriter, r *http.Request) error {
	alt := r.URL.Query().Get("alt")
	if alt != "" && alt != "sse" && alt != "json" {
		return apierr.Invalid("alt", "must be sse or json")
	}
	return s.serveContent(w, r, gemini.Call{Model: modelOfPath(r), Stream: true, Array: alt != "sse"})
}

func (s *inferenceServer) serveContent(w http.ResponseWriter, r *http.Request, call gemini.Call) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	chat, err := gemini.Read(body, call)
	if err != nil {
		return err
	}
	return s.serveNative(w, r, formGemini, chat, gemini.WithModel(body, call.Model))
}

func (s *inferenceServer) countContent(w http.ResponseWriter, r *http.Request) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	chat, err := gemini.ReadCount(body, modelOfPath(r))
	if err != nil {
		return err
	}
	w.Header().Set(headerEstimated, "true")
	request := &inference.Request{Route: routing.Request{Model: chat.Model}, Chat: chat.Chat}
	return writeJSON(w, gemini.TokenCount{Total: inference.EstimateInput(request)})
}

// toGeminiEmbedding returns the request; see toNativeRequest.
func toGeminiEmbedding(ctx context.Context, wanted *gemini.Embedding, header http.Header, change func(*extension)) (*inference.Request, error) {
	request, err := toEmbeddingRequest(ctx, wanted.Model, wanted.Extension, header, change)
	if err != nil {
		return nil, err
	}
	request.Embedding = provider.Embedding{Input: wanted.Texts, Dimensions: wanted.Dimensions}
	return request, nil
}

// embedContent embeds a text, or several with a batch.
func (s *inferenceServer) embedContent(w http.ResponseWriter, r *http.Request) error {
	body, err := peek(r)
	if err != nil {
		return err
	}
	model := modelOfPath(r)
	wanted, err := gemini.ReadEmbedding(body, model)
	if err != nil {
		return err
	}
	if isBatch := strings.HasSuffix(r.URL.Path, ":batchEmbedContents"); isBatch != wanted.Batch {
		return apierr.Invalid("requests", "belongs to batchEmbedContents, and content to embedContent")
	}
	request, err := toGeminiEmbedding(r.Context(), wanted, r.Header, nil)
	if err != nil {
		return err
	}
	request.Raw = rawOfHTTP(r, formGeminiEmbeddings)
	request.Raw.Body = gemini.WithModel(body, model)
	embedded, err := s.engine.Embed(r.Context(), request)
	if err != nil {
		return fmt.Errorf("embeddings: %w", err)
	}
	annotate(r.Context(), embedded.Route, embedded.Report)
	eachHeader(embedded.Route, inOne(w.Header()))
	eachReport(embedded.Report, inOne(w.Header()))
	if len(wanted.Unknown) > 0 {
		w.Header().Set(headerIgnored, ignored(wanted.Unknown))
	}
	writeText(w, appendEmbeddings(embedded, wanted.Batch))
	return nil
}

// appendEmbeddings returns the vectors in Google's form. Of a batch there are several.
func appendEmbeddings(e *inference.Embedded, batch bool) []byte {
	size := 512
	for _, v := range e.Vectors {
		size += 32 + 15*len(v)
	}
	text := make([]byte, 0, size)
	for i, v := range e.Vectors {
		switch {
		case !batch:
			text = append(text, `{"embedding":{"values":`...)
		case i == 0:
			text = append(text, `{"embeddings":[{"values":`...)
		default:
			text = append(text, `,{"values":`...)
		}
		text = append(appendVector(text, v), '}')
	}
	if batch {
		text = append(text, ']')
	}
	text = append(text, `,"usageMetadata":{"promptTokenCount":`...)
	text = strconv.AppendInt(text, e.Report.Prompt, 10)
	text = append(text, `,"totalTokenCount":`...)
	return append(strconv.AppendInt(text, e.Report.Prompt, 10), "}}"...)
}
