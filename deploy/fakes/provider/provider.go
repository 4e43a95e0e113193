// Package provider fakes an AI vendor on one address: the OpenAI faces (chat, responses, embeddings, images, models), the
// Anthropic Messages face, Gemini's (generateContent, embeddings, images), Cohere's embeddings, those of Vertex AI and
// Bedrock's (Converse, InvokeModel, CountTokens), and batch jobs of the first two. Answers are derived from the request
// alone, so that the same request gets the same bytes.
//
// The assistant repeats the last user text ("You said: ..."). It calls the first tool offered when that text contains
// "use tool", and repeats a tool's result ("Tool said: ..."). Tokens counts the tokens of texts.
package provider

import (
	"encoding/json"
	"io"
	"net/http"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

// maxBody is the maximum size of a message at Anthropic.
const maxBody = 32 << 20

// vertexPath begins the paths of Vertex AI.
const vertexPath = "/v1/projects/{project}/locations/{location}"

// created is the fixed creation time (Unix seconds) of all answers.
const created = 1767225600

// Server is the fake vendor. Its embedded Injector scripts it; the answer field of an action is an Answer.
type Server struct {
	*fault.Injector
	answered *journal.Journal[Answered]
	batches  *batchStore
	handler  http.Handler
}

// New returns a vendor that follows script. It panics on an invalid one.
func New(script fault.Script) *Server {
	s := &Server{answered: journal.New[Answered](maxAnswered, maxAnsweredBytes)}
	s.Injector = fault.NewInjector(script, fault.Options{
		MaxBody:     maxUpload,
		ErrorBody:   errorBody,
		StreamError: streamError,
		Check:       checkAnswer,
		Behaviours:  Behaviours(),
	})
	api := http.NewServeMux()
	api.Handle("POST /v1/chat/completions", openAI(chat))
	api.Handle("POST /v1/responses", openAI(respondTo))
	api.Handle("POST /v1/responses/compact", openAI(compact))
	api.Handle("POST /v1/responses/input_tokens", openAI(countInput))
	api.Handle("POST /v1/embeddings", openAI(embed))
	api.Handle("POST /v1/images/generations", openAI(generate))
	api.HandleFunc("GET /images/{name}", servePNG)
	api.HandleFunc("POST /v1/messages", messages)
	api.HandleFunc("POST /v1beta/models/{call}", gemini)
	api.HandleFunc("POST /v2/embed", cohere)
	api.HandleFunc("POST /model/{model}/{operation}", bedrock)
	api.HandleFunc("POST "+vertexPath+"/publishers/{publisher}/models/{call}", vertex)
	api.Handle("POST "+vertexPath+"/endpoints/openapi/chat/completions", openAI(chat))
	api.HandleFunc("GET /v1/models", models)
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fail(w, r, http.StatusNotFound, "") })
	control := http.NewServeMux()
	fault.ServeJournal(control, "answered", s.answered, nil)
	s.batches = newBatchStore(api, s.answered)
	s.batches.serve(api, control)
	s.handler = s.Handler(control, s.recordAnswered(bounded(api)))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if speaksBedrock(r) {
		w = &exceptionNamer{w}
	}
	s.handler.ServeHTTP(w, r)
}

// bounded refuses requests that are too large. Those that make batch jobs may be larger.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody && !aboutBatches(r.URL.Path) {
			fail(w, r, http.StatusRequestEntityTooLarge, "")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// openAI passes only calls with a credential and a JSON object to next.
func openAI(next func(w http.ResponseWriter, r *http.Request, body []byte)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && r.Header.Get("Api-Key") == "" {
			fail(w, r, http.StatusUnauthorized, "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).")
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !json.Valid(body) {
			fail(w, r, http.StatusBadRequest, "We could not parse the JSON body of your request.")
			return
		}
		header := w.Header()
		header.Set("X-Request-Id", requestID(body))
		header.Set("Openai-Version", "2020-10-01")
		header.Set("Openai-Processing-Ms", "1")
		header.Set("X-Ratelimit-Limit-Requests", "10000")
		header.Set("X-Ratelimit-Remaining-Requests", "9999")
		header.Set("X-Ratelimit-Reset-Requests", "6ms")
		header.Set("X-Ratelimit-Limit-Tokens", "2000000")
		header.Set("X-Ratelimit-Remaining-Tokens", "1999990")
		header.Set("X-Ratelimit-Reset-Tokens", "0s")
		next(w, r, body)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The only error left is a client that has left.
	_, _ = w.Write(encode(v))
}
