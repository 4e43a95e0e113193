package smtp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"

	"switchyard.dev/deploy/fakes/fault"
)

// session is one client's dialogue, on one goroutine.
type session struct {
	server *Server
	conn   *conn
	tls    bool
	user   string
	from   string
	to     []string
}

func (s *Server) newSession(c *gosmtp.Conn) (gosmtp.Session, error) {
	raw := c.Conn()
	secure, encrypted := raw.(*tls.Conn)
	if encrypted {
		raw = secure.NetConn()
	}
	below, ok := raw.(*conn)
	if !ok {
		return nil, errors.New("the connection is not from this server's listener")
	}
	return &session{server: s, conn: below, tls: encrypted}, nil
}

// errCut is the error of a command on a connection that the script has ended.
var errCut = errors.New("the script ended the connection")

// errTaken is the error that prevents a reply to an accepted message.
var errTaken = errors.New("the script ends the connection after the message")

// apply applies the script to a command. The error is the reply to send, or errCut.
func (c *conn) apply(call fault.Call) error {
	action, matched := c.server.Next(call)
	if !matched {
		return nil
	}
	if action.DelayMS > 0 {
		c.pause(action.DelayMS)
	}
	switch {
	case action.AfterBytes != nil && call.Method == "DATA":
		return &cutInsideError{after: int64(*action.AfterBytes), reset: action.Reset}
	case action.HalfClose && call.Method == "DATA":
		return errTaken
	case action.Drop || action.Reset:
		c.cut(action.Reset)
		return errCut
	case action.Status != 0:
		c.hangUp = action.Status == 421
		return &gosmtp.SMTPError{
			Code: action.Status, EnhancedCode: enhancedCode(action), Message: replyText(action),
		}
	default:
		return nil
	}
}

// cutInsideError ends the connection after some bytes of the message.
type cutInsideError struct {
	after int64
	reset bool
}

func (e *cutInsideError) Error() string { return errCut.Error() }

// ownCode matches an enhanced code at the beginning of a scripted text.
var ownCode = regexp.MustCompile(`^[245]\.[0-9]{1,3}\.[0-9]{1,3}( |$)`)

// enhancedCode returns the enhanced code of a refusal: the class of its status, or none if the scripted text has a
// code.
func enhancedCode(a fault.Action) gosmtp.EnhancedCode {
	if ownCode.MatchString(a.Body) {
		return gosmtp.NoEnhancedCode
	}
	return gosmtp.EnhancedCode{a.Status / 100, 0, 0}
}

func replyText(a fault.Action) string {
	if a.Body != "" {
		return strings.Join(strings.Fields(a.Body), " ")
	}
	switch a.Status {
	case 421:
		return "Service not available, closing transmission channel"
	case 451:
		return "Requested action aborted: local error in processing"
	case 550:
		return "Requested action not taken: mailbox unavailable"
	case 535:
		return "Authentication credentials invalid"
	default:
		return fmt.Sprintf("Scripted %d", a.Status)
	}
}

// AuthMechanisms implements gosmtp.AuthSession.
func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements gosmtp.AuthSession. It accepts any user and password.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		header := http.Header{"Password": {password}}
		if err := s.conn.apply(fault.Call{Method: "AUTH", Path: user, Header: header}); err != nil {
			return err
		}
		s.user = user
		return nil
	}), nil
}

// Mail implements gosmtp.Session.
func (s *session) Mail(from string, _ *gosmtp.MailOptions) error {
	s.from = from
	return s.conn.apply(fault.Call{Method: "MAIL", Path: from})
}

// Rcpt implements gosmtp.Session.
func (s *session) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	if err := s.conn.apply(fault.Call{Method: "RCPT", Path: to}); err != nil {
		return err
	}
	s.to = append(s.to, to)
	return nil
}

// Data implements gosmtp.Session.
func (s *session) Data(r io.Reader) error {
	err := s.conn.apply(fault.Call{Method: "DATA", Path: s.from})
	if cut, ok := errors.AsType[*cutInsideError](err); ok {
		_, _ = io.CopyN(io.Discard, r, cut.after)
		s.conn.cut(cut.reset)
		return err
	}
	if err != nil && !errors.Is(err, errTaken) {
		// The message is read to its end first, because SMTP has the reply after it.
		_, _ = io.Copy(io.Discard, r)
		return err
	}
	data, failed := io.ReadAll(r)
	if failed != nil {
		return failed
	}
	s.server.messages.Add(Message{
		Time: time.Now().UTC(), From: s.from, To: s.to, TLS: s.tls, User: s.user, Data: string(data),
	}, len(data))
	if errors.Is(err, errTaken) {
		s.conn.cut(false)
	}
	return err
}

// Reset implements gosmtp.Session.
func (s *session) Reset() { s.from, s.to = "", nil }

// Logout implements gosmtp.Session.
func (s *session) Logout() error { return nil }
