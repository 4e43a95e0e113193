package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/smtp"
	"net/textproto"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"switchyard.dev/deploy/fakes/cert"
	"switchyard.dev/deploy/fakes/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a mail server on a free port. A client with the pool trusts its certificate.
func start(t *testing.T, rules ...fault.Rule) (srv *Server, address string, pool *x509.CertPool) {
	t.Helper()
	certificate, text, err := cert.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	srv = New(fault.Script{Rules: rules}, certificate)
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return srv, ln.Addr().String(), pool
}

// mail sends one message to all recipients in one transaction. With a pool it uses STARTTLS and logs in.
func mail(ctx context.Context, address string, pool *x509.CertPool, text string, to ...string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	client, err := smtp.NewClient(conn, "127.0.0.1")
	if err != nil {
		return err
	}
	if pool != nil {
		if err := client.StartTLS(&tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}); err != nil {
			return err
		}
		if err := client.Auth(smtp.PlainAuth("", "mailer", "s3cret", "127.0.0.1")); err != nil {
			return err
		}
	}
	if err := client.Mail("app@example.com"); err != nil {
		return err
	}
	for _, address := range to {
		if err := client.Rcpt(address); err != nil {
			return err
		}
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return client.Quit()
}

func TestMailIsStored(t *testing.T) {
	srv, address, pool := start(t)
	const text = "Subject: hi\r\n\r\n.hello\r\n"
	if err := mail(t.Context(), address, pool, text, "a@example.com", "b@example.com"); err != nil {
		t.Fatal(err)
	}
	if err := mail(t.Context(), address, nil, text, "c@example.com"); err != nil {
		t.Fatal(err)
	}
	want := []Message{
		{From: "app@example.com", To: []string{"a@example.com", "b@example.com"}, TLS: true, User: "mailer", Data: text},
		{From: "app@example.com", To: []string{"c@example.com"}, Data: text},
	}
	if diff := cmp.Diff(want, srv.Messages(10), cmpopts.IgnoreFields(Message{}, "Time")); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{
		"/_messages?to=c@example.com": `"to":["c@example.com"]`,
		"/_count?to=b@example.com":    `"count":1`,
		"/_calls":                     `"AUTH mailer":1`,
		"/nothing":                    "404",
	} {
		rec := httptest.NewRecorder()
		srv.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		body := rec.Body.String()
		if !strings.Contains(body, want) {
			t.Errorf("%s does not hold %s: %s", path, want, body)
		}
		if strings.Contains(body, "s3cret") {
			t.Errorf("%s shows the password: %s", path, body)
		}
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name   string
		match  fault.Match
		action fault.Action
		code   int   // of the reply
		cut    error // of the connection, when there is no reply
	}{
		{name: "too busy to greet", match: fault.Match{Method: "CONNECT"}, action: fault.Action{Status: 421}, code: 421},
		{name: "gone before the greeting", match: fault.Match{Method: "CONNECT"}, action: fault.Action{Drop: true}, cut: io.EOF},
		{name: "wrong password", match: fault.Match{Method: "AUTH", Path: "mailer"}, action: fault.Action{Status: 535}, code: 535},
		{name: "sender refused", match: fault.Match{Method: "MAIL"}, action: fault.Action{Status: 451}, code: 451},
		{name: "no such mailbox", match: fault.Match{Method: "RCPT", Path: "*@example.com"}, action: fault.Action{Status: 550, Body: "no\r\nsuch user"}, code: 550},
		{name: "reset at the recipient", match: fault.Match{Method: "RCPT"}, action: fault.Action{Reset: true}, cut: syscall.ECONNRESET},
		{name: "refused after the message", match: fault.Match{Method: "DATA"}, action: fault.Action{Status: 451}, code: 451},
		{name: "closing after the message", match: fault.Match{Method: "DATA"}, action: fault.Action{Status: 421}, code: 421},
		{name: "dropped at the message", match: fault.Match{Method: "DATA", Path: "app@example.com"}, action: fault.Action{Drop: true}, cut: io.EOF},
		{name: "dropped inside the message", match: fault.Match{Method: "DATA"}, action: fault.Action{AfterBytes: new(3)}, cut: io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, address, pool := start(t, fault.Rule{Match: tt.match, Times: 1, Action: tt.action})
			err := mail(t.Context(), address, pool, "Subject: hi\r\n\r\nhello\r\n", "a@example.com")
			reply, _ := errors.AsType[*textproto.Error](err)
			switch {
			case tt.code != 0 && (reply == nil || reply.Code != tt.code):
				t.Errorf("error %v, want reply %d", err, tt.code)
			case tt.cut != nil && !isCut(err):
				t.Errorf("error %v, want %v or another end of the connection", err, tt.cut)
			}
			if got := len(srv.Messages(10)); got != 0 {
				t.Errorf("%d messages stored after a fault", got)
			}
			if err := mail(t.Context(), address, pool, "again\r\n", "a@example.com"); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

// isCut reports whether an error is one of those by which a client sees the end of a connection, which depend on
// whether it reads or writes at that moment.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func TestTakenWithoutAnAnswer(t *testing.T) {
	srv, address, pool := start(t, fault.Rule{Match: fault.Match{Method: "DATA"}, Times: 1, Action: fault.Action{HalfClose: true}})
	if err := mail(t.Context(), address, pool, "Subject: hi\r\n\r\nhello\r\n", "a@example.com"); !isCut(err) {
		t.Errorf("error %v, want the end of the connection", err)
	}
	if got := len(srv.Messages(10)); got != 1 {
		t.Errorf("%d messages stored, want the one", got)
	}
}

func TestAfter421TheConnectionIsClosed(t *testing.T) {
	_, address, _ := start(t, fault.Rule{Match: fault.Match{Method: "MAIL"}, Action: fault.Action{Status: 421}})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, err := smtp.NewClient(conn, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Mail("a@example.com"); err == nil || !strings.HasPrefix(err.Error(), "421") {
		t.Errorf("MAIL: %v, want 421", err)
	}
	if err := client.Noop(); !isCut(err) {
		t.Errorf("NOOP after 421: %v, want a closed connection", err)
	}
}

func TestADelayHoldsTheReplyUntilTheServerStops(t *testing.T) {
	srv, address, _ := start(t, fault.Rule{Match: fault.Match{Method: "MAIL"}, Action: fault.Action{DelayMS: 600_000}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	client, err := smtp.NewClient(conn, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Mail("a@example.com"); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Errorf("MAIL: %v, want a timeout", err)
	}
	if got := srv.Calls().Counts["MAIL a@example.com"]; got != 1 {
		t.Errorf("%d MAIL calls, want 1", got)
	}
}

func isTimeout(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return ok && netErr.Timeout()
}

func TestScriptsHoldOnlySMTPReplies(t *testing.T) {
	srv, _, _ := start(t)
	if err := srv.Append(fault.Script{Rules: []fault.Rule{{Action: fault.Action{Status: 250}}}}); err == nil {
		t.Error("a script may answer 250")
	}
}
