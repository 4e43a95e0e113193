// Package smtp fakes a mail server: it accepts every message over STARTTLS or in plain text, stores it, and fails
// where the script demands it.
//
// A call is an SMTP command: Method is CONNECT, AUTH, MAIL, RCPT or DATA, and Path
// the user or address it names (of DATA: the sender). An action's status and body
// are the reply; after 421 the connection is closed. drop and reset end it; with
// after_bytes that happens inside DATA.
package smtp

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	gosmtp "github.com/emersion/go-smtp"

	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/journal"
)

const (
	maxMessages     = 10_000
	maxBytes        = 256 << 20
	maxMessageBytes = 10 << 20
	idleTimeout     = 5 * time.Minute
)

// Message is one accepted mail.
type Message struct {
	Time time.Time `json:"time"`
	From string    `json:"from"`
	To   []string  `json:"to"`
	// TLS reports whether it came over an encrypted connection.
	TLS bool `json:"tls"`
	// User is the user who logged in, if any.
	User string `json:"user,omitempty"`
	// Data is the message with its headers, as sent.
	Data string `json:"data"`
}

// Server is the fake mail server. Its embedded Injector scripts it; as an http.Handler it serves that script's
// control face and the messages.
type Server struct {
	*fault.Injector
	smtp     *gosmtp.Server
	messages *journal.Journal[Message]
	handler  http.Handler
}

// New returns a mail server that follows script and offers STARTTLS with
// certificate. It panics on an invalid script.
func New(script fault.Script, certificate tls.Certificate) *Server {
	s := &Server{messages: journal.New[Message](maxMessages, maxBytes)}
	s.Injector = fault.NewInjector(script, fault.Options{Check: checkAction})
	control := http.NewServeMux()
	fault.ServeJournal(control, "messages", s.messages, func(q url.Values) func(Message) bool {
		to := q.Get("to")
		return func(m Message) bool { return to == "" || slices.Contains(m.To, to) }
	})
	s.handler = s.Handler(control, http.NotFoundHandler())

	s.smtp = gosmtp.NewServer(gosmtp.BackendFunc(s.newSession))
	s.smtp.Domain = "localhost"
	s.smtp.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.smtp.MaxMessageBytes = maxMessageBytes
	s.smtp.MaxRecipients = 100
	s.smtp.ReadTimeout = idleTimeout
	s.smtp.WriteTimeout = idleTimeout
	s.smtp.EnableSMTPUTF8 = true
	// The library would report the end of connections that the script cuts.
	s.smtp.ErrorLog = slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug)
	return s
}

// ServeHTTP implements http.Handler: the control face.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, r)
}

// Serve accepts mail until ctx ends, then closes the listener and all connections and returns nil. A server serves
// once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		// The library is closed first, because otherwise it takes a closed listener for a failure.
		_ = s.smtp.Close()
		_ = ln.Close()
	})
	defer stop()
	if err := s.smtp.Serve(&listener{Listener: ln, server: s, ctx: ctx}); err != nil {
		return fmt.Errorf("smtp: %w", err)
	}
	return nil
}

// Messages returns the newest accepted mails, at most limit, oldest first.
func (s *Server) Messages(limit int) []Message {
	return s.messages.Last(limit, nil)
}

// checkAction refuses replies that SMTP does not have.
func checkAction(a fault.Action) error {
	if a.Status != 0 && a.Status < 400 {
		return fmt.Errorf("status %d: an SMTP fault is 400 to 599", a.Status)
	}
	return nil
}
