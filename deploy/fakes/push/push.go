// Package push fakes a web push service (RFC 8030) together with the browsers behind it: it creates subscriptions,
// checks what a sender must send, and decrypts messages to its own subscriptions.
package push

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	maxBody          = 4096 // the size that a service must accept at least (RFC 8030, section 7.2)
	maxMessages      = 100_000
	maxBytes         = 64 << 20
	maxSubscriptions = 100_000
)

var (
	urgencies = []string{"", "very-low", "low", "normal", "high"}
	topicForm = regexp.MustCompile(`^[A-Za-z0-9_-]{0,32}$`)
)

// Message is one accepted push.
type Message struct {
	Time     time.Time `json:"time"`
	Path     string    `json:"path"`
	TTL      int       `json:"ttl"` // seconds
	Urgency  string    `json:"urgency,omitempty"`
	Topic    string    `json:"topic,omitempty"`
	Encoding string    `json:"content_encoding,omitempty"`
	VAPID    VAPID     `json:"vapid"`
	Body     []byte    `json:"body"`
	// Plaintext is what the browser receives, for subscriptions made here.
	Plaintext string `json:"plaintext,omitempty"`
	// DecryptError is the reason why such a browser would receive nothing.
	DecryptError string `json:"decrypt_error,omitempty"`
}

// Server is the fake service. Its embedded Injector scripts it. Any path is an endpoint, even if it was not created
// here; a deleted one answers 410.
type Server struct {
	*fault.Injector
	messages *journal.Journal[Message]
	handler  http.Handler

	mu            sync.Mutex
	subscriptions map[string]*Subscription // by path; nil = deleted
}

// New returns a service that follows script. It panics on an invalid one.
func New(script fault.Script) *Server {
	s := &Server{messages: journal.New[Message](maxMessages, maxBytes), subscriptions: map[string]*Subscription{}}
	s.Injector = fault.NewInjector(script, fault.Options{MaxBody: maxBody, ErrorBody: errorBody})
	control := http.NewServeMux()
	fault.ServeJournal(control, "messages", s.messages, func(q url.Values) func(Message) bool {
		path := q.Get("path")
		return func(m Message) bool { return path == "" || m.Path == path }
	})
	control.HandleFunc("POST /_subscriptions", s.subscribe)
	s.handler = s.Handler(control, http.HandlerFunc(s.endpoint))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, r)
}

// Messages returns the newest accepted messages, at most limit, oldest first.
func (s *Server) Messages(limit int) []Message {
	return s.messages.Last(limit, nil)
}

// subscribe answers POST /_subscriptions with the result of a browser's PushSubscription.toJSON(). The body may
// restrict the sender: {"application_server_key": "<base64url>"}.
func (s *Server) subscribe(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ApplicationServerKey string `json:"application_server_key"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&req)
	if err != nil && !errors.Is(err, io.EOF) {
		fault.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": "the body is not JSON"})
		return
	}
	sub, err := NewSubscription(req.ApplicationServerKey)
	if err != nil {
		fault.WriteJSON(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	path := "/push/" + rand.Text()
	if !s.keep(path, sub) {
		fault.WriteJSON(w, http.StatusInsufficientStorage, map[string]string{"error": "too many subscriptions"})
		return
	}
	p256dh, auth := sub.Keys()
	fault.WriteJSON(w, http.StatusCreated, map[string]any{
		"endpoint":       origin(r) + path,
		"expirationTime": nil,
		"keys":           map[string]string{"p256dh": p256dh, "auth": auth},
	})
}

// endpoint accepts a push (POST) or deletes a subscription (DELETE).
func (s *Server) endpoint(w http.ResponseWriter, r *http.Request) {
	sub, gone := s.find(r.URL.Path)
	switch {
	case gone:
		refuse(w, http.StatusGone, 106, "the subscription is gone")
	case r.Method == http.MethodDelete:
		if !s.keep(r.URL.Path, nil) {
			refuse(w, http.StatusInsufficientStorage, 999, "too many subscriptions")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, 999, "an endpoint takes POST and DELETE")
	default:
		s.accept(w, r, sub)
	}
}

func (s *Server) accept(w http.ResponseWriter, r *http.Request, sub *Subscription) {
	m, fails := readMessage(r)
	if fails != nil {
		refuse(w, http.StatusBadRequest, fails.errno, fails.message)
		return
	}
	v, err := ParseVAPID(r.Header.Get("Authorization"), origin(r), time.Now())
	if err != nil {
		refuse(w, http.StatusUnauthorized, 109, err.Error())
		return
	}
	m.VAPID = v
	if sub != nil && sub.serverKey != "" && sub.serverKey != v.Key {
		refuse(w, http.StatusUnauthorized, 109, "VAPID public key mismatch") // as Mozilla's service does
		return
	}
	if sub != nil && len(m.Body) > 0 {
		text, err := sub.Decrypt(m.Body)
		if err != nil {
			// A real service cannot detect this, so the sender isn't informed.
			m.DecryptError = err.Error()
		}
		m.Plaintext = string(text)
	}
	s.messages.Add(m, len(m.Body)+len(m.Plaintext))
	w.Header().Set("Location", origin(r)+"/message/"+rand.Text())
	w.Header().Set("TTL", strconv.Itoa(m.TTL))
	w.WriteHeader(http.StatusCreated)
}

// invalid is a refusal, with its number in Mozilla's service.
type invalid struct {
	errno   int
	message string
}

// readMessage reads and checks a message, except its authorization.
func readMessage(r *http.Request) (Message, *invalid) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return Message{}, &invalid{999, "the body could not be read"}
	}
	m := Message{
		Time: time.Now().UTC(), Path: r.URL.Path, Body: body,
		Urgency: r.Header.Get("Urgency"), Topic: r.Header.Get("Topic"), Encoding: r.Header.Get("Content-Encoding"),
	}
	ttl := r.Header.Get("TTL")
	if ttl == "" {
		return Message{}, &invalid{111, "the TTL header is missing"}
	}
	if m.TTL, err = strconv.Atoi(ttl); err != nil || m.TTL < 0 {
		return Message{}, &invalid{112, "the TTL header is not a number of seconds"}
	}
	switch {
	case !topicForm.MatchString(m.Topic):
		return Message{}, &invalid{113, "the Topic header is not up to 32 characters of base64url"}
	case !slices.Contains(urgencies, m.Urgency):
		return Message{}, &invalid{999, "the Urgency header is unknown"}
	case len(body) > 0 && m.Encoding != "aes128gcm":
		return Message{}, &invalid{110, "the content encoding is not aes128gcm"}
	}
	return m, nil
}

// keep stores a subscription, or with nil its deletion. It reports false when there is no room.
func (s *Server) keep(path string, sub *Subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.subscriptions[path]; !known && len(s.subscriptions) >= maxSubscriptions {
		return false
	}
	s.subscriptions[path] = sub
	return true
}

func (s *Server) find(path string) (sub *Subscription, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, known := s.subscriptions[path]
	return sub, known && sub == nil
}

func origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// refuse answers with the error body of Mozilla's service.
func refuse(w http.ResponseWriter, status, errno int, message string) {
	fault.WriteJSON(w, status, map[string]any{
		"code": status, "errno": errno, "error": http.StatusText(status), "message": message,
	})
}

// errorBody returns the body for a scripted status.
func errorBody(_ *http.Request, status int, _ string) (contentType, body string) {
	numbers := map[int]int{
		http.StatusUnauthorized: 109, http.StatusNotFound: 102, http.StatusGone: 106,
		http.StatusRequestEntityTooLarge: 104, http.StatusServiceUnavailable: 201,
	}
	errno, known := numbers[status]
	if !known {
		errno = 999
	}
	return "application/json", `{"code":` + strconv.Itoa(status) + `,"errno":` + strconv.Itoa(errno) +
		`,"error":` + strconv.Quote(http.StatusText(status)) + `,"message":""}`
}
