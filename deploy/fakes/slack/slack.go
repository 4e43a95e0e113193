// Package slack fakes Slack's incoming webhooks: the answer "ok", and the plain
// error texts and the 429 body of the real service; and of its Web API
// chat.postMessage and chat.update.
package slack

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	maxMessages = 10_000
	maxBytes    = 64 << 20
	maxBlocks   = 50
)

// hookPath is the form of a hook's path. Its last part is the credential.
var hookPath = regexp.MustCompile(`^(/(?:services|triggers|workflows)/(?:[A-Za-z0-9]+/)+)([A-Za-z0-9]+)$`)

// Message is one accepted post or change. Hook is its path with the credential hashed by RedactHook; of the Web API there
// are the method and the message's place instead.
type Message struct {
	Time    time.Time       `json:"time"`
	Hook    string          `json:"hook,omitempty"`
	Method  string          `json:"method,omitempty"`
	Channel string          `json:"channel,omitempty"`
	TS      string          `json:"ts,omitempty"`
	Payload json.RawMessage `json:"payload"`
}

// Server is the fake service. Its embedded Injector scripts it; a scripted status without a body gets Slack's text
// for it.
type Server struct {
	*fault.Injector
	messages *journal.Journal[Message]
	handler  http.Handler

	mu sync.Mutex
	// owners are the hashed tokens that have posted messages, by channel and ts; posts counts them.
	owners map[string]string
	posts  int
}

// New returns a service that follows script. It panics on an invalid one.
func New(script fault.Script) *Server {
	s := &Server{messages: journal.New[Message](maxMessages, maxBytes), owners: map[string]string{}}
	s.Injector = fault.NewInjector(script, fault.Options{RedactPath: RedactHook, ErrorBody: errorBody})
	control := http.NewServeMux()
	fault.ServeJournal(control, "messages", s.messages, nil)
	s.handler = s.Handler(control, http.HandlerFunc(s.post))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, r)
}

// Messages returns the newest accepted posts, at most limit, oldest first.
func (s *Server) Messages(limit int) []Message {
	return s.messages.Last(limit, nil)
}

// RedactHook hashes the credential in a hook's path. Paths of the Web API hold none.
func RedactHook(path string) string {
	if path == apiPath+postMethod || path == apiPath+updMethod {
		return path
	}
	parts := hookPath.FindStringSubmatch(path)
	if parts == nil {
		return "/" + fault.HashSecret(path)
	}
	return parts[1] + fault.HashSecret(parts[2])
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if isAPI(r.URL.Path) {
		s.api(w, r)
		return
	}
	if r.Method != http.MethodPost {
		text(w, http.StatusMethodNotAllowed, "method_not_allowed")
		return
	}
	if !hookPath.MatchString(r.URL.Path) {
		text(w, http.StatusNotFound, "no_service")
		return
	}
	payload, err := readPayload(r)
	if err == nil {
		err = check(payload)
	}
	if err != nil {
		text(w, http.StatusBadRequest, err.Error())
		return
	}
	s.messages.Add(Message{Time: time.Now().UTC(), Hook: RedactHook(r.URL.Path), Payload: payload}, len(payload))
	text(w, http.StatusOK, "ok")
}

// slackError is an error text of the service.
type slackError string

func (e slackError) Error() string { return string(e) }

const (
	errInvalidPayload slackError = "invalid_payload"
	errInvalidBlocks  slackError = "invalid_blocks"
	errNoText         slackError = "no_text"
)

// readPayload reads a JSON body, or a form whose field payload holds one.
func readPayload(r *http.Request) (json.RawMessage, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, errInvalidPayload
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errInvalidPayload
		}
		body = []byte(form.Get("payload"))
	}
	if !json.Valid(body) {
		return nil, errInvalidPayload
	}
	return body, nil
}

func check(payload json.RawMessage) error {
	var p struct {
		Text        *string           `json:"text"`
		Blocks      json.RawMessage   `json:"blocks"`
		Attachments []json.RawMessage `json:"attachments"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return errInvalidPayload
	}
	if len(p.Blocks) > 0 {
		if err := checkBlocks(p.Blocks); err != nil {
			return err
		}
	}
	if (p.Text == nil || *p.Text == "") && len(p.Blocks) == 0 && len(p.Attachments) == 0 {
		return errNoText
	}
	return nil
}

// errorBody returns the service's text for a status.
func errorBody(r *http.Request, status int, retryAfter string) (contentType, body string) {
	if isAPI(r.URL.Path) {
		name := "fatal_error"
		switch status {
		case http.StatusTooManyRequests:
			name = "ratelimited"
		case http.StatusServiceUnavailable:
			name = "service_unavailable"
		}
		return "application/json; charset=utf-8", fmt.Sprintf(`{"ok":false,"error":%q}`, name)
	}
	if status == http.StatusTooManyRequests {
		seconds, err := strconv.Atoi(retryAfter)
		if err != nil {
			seconds = 1
		}
		return "application/json; charset=utf-8", fmt.Sprintf(`{"retry_after":%d,"ok":false,"error":"rate_limited"}`, seconds)
	}
	texts := map[int]string{
		http.StatusBadRequest:          string(errInvalidPayload),
		http.StatusForbidden:           "action_prohibited",
		http.StatusNotFound:            "no_service",
		http.StatusGone:                "channel_is_archived",
		http.StatusInternalServerError: "rollup_error",
	}
	return "text/html", texts[status]
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
