package smtp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	gosmtp "github.com/emersion/go-smtp"
	"github.com/wneessen/go-mail"
	"go.uber.org/goleak"

	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/platform/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const text = "From: <app@example.com>\r\nSubject: hi\r\n\r\n.hello\r\n"

func deliver(tb testing.TB, p *smtp.Pool) smtp.Reply {
	tb.Helper()
	return within(tb, p, 5*time.Second)
}

func within(tb testing.TB, p *smtp.Pool, limit time.Duration) smtp.Reply {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	return p.Send(ctx, "app@example.com", "ann@example.com", []byte(text))
}

func TestMailsShareAConnection(t *testing.T) {
	for name, implicit := range map[string]bool{"STARTTLS": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, implicit, false)
			p := s.pool(t, func(o *smtp.Options) {
				if implicit {
					o.Security = smtp.Implicit
				}
			})
			for range 3 {
				if r := deliver(t, p); !r.Sent() {
					t.Fatalf("reply %+v", r)
				}
			}
			if mails, logins, open := s.count(); mails != 3 || logins != 1 || open != 1 {
				t.Errorf("%d mails by %d logins on %d connections", mails, logins, open)
			}
			if s.mails[0] != text {
				t.Errorf("arrived as %q", s.mails[0])
			}
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := serve(t, false, false)
	s.fail(fault{slow: 20 * time.Millisecond})
	p := s.pool(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r := deliver(t, p); !r.Sent() {
				t.Errorf("reply %+v", r)
			}
		})
	}
	wg.Wait()
	if mails, logins, _ := s.count(); mails != 8 || logins > 2 {
		t.Errorf("%d mails by %d logins, want 8 by 2", mails, logins)
	}
}

func reply(code int, enhanced gosmtp.EnhancedCode, message string) *gosmtp.SMTPError {
	return &gosmtp.SMTPError{Code: code, EnhancedCode: enhanced, Message: message}
}

func TestReplies(t *testing.T) {
	tests := map[string]struct {
		fault               fault
		code                int
		enhanced            string
		stage               smtp.Stage
		permanent, denied   bool
		unknown, storedOnce bool
	}{
		"busy":                     {fault: fault{greet: reply(421, gosmtp.NoEnhancedCode, "busy")}, code: 421, stage: smtp.StageConnect},
		"login refused":            {fault: fault{auth: reply(535, gosmtp.EnhancedCode{5, 7, 8}, "no")}, code: 535, enhanced: "5.7.8", stage: smtp.StageConnect, denied: true, permanent: true},
		"sender refused":           {fault: fault{mail: reply(550, gosmtp.EnhancedCode{5, 7, 1}, "no")}, code: 550, enhanced: "5.7.1", stage: smtp.StageSender, permanent: true},
		"no such mailbox":          {fault: fault{rcpt: reply(550, gosmtp.EnhancedCode{5, 1, 1}, "no such user")}, code: 550, enhanced: "5.1.1", stage: smtp.StageRecipient, permanent: true},
		"grey listed":              {fault: fault{rcpt: reply(451, gosmtp.EnhancedCode{4, 7, 1}, "later")}, code: 451, enhanced: "4.7.1", stage: smtp.StageRecipient},
		"5xx with another class":   {fault: fault{rcpt: reply(550, gosmtp.EnhancedCode{4, 2, 1}, "no")}, code: 550, enhanced: "4.2.1", stage: smtp.StageRecipient, permanent: true},
		"4xx with another class":   {fault: fault{rcpt: reply(451, gosmtp.EnhancedCode{5, 7, 1}, "later")}, code: 451, enhanced: "5.7.1", stage: smtp.StageRecipient},
		"refused after the mail":   {fault: fault{data: reply(554, gosmtp.EnhancedCode{5, 6, 0}, "spam")}, code: 554, enhanced: "5.6.0", stage: smtp.StageSent, permanent: true},
		"deferred after the mail":  {fault: fault{data: reply(451, gosmtp.EnhancedCode{4, 3, 0}, "later")}, code: 451, enhanced: "4.3.0", stage: smtp.StageSent},
		"dropped before the mail":  {fault: fault{cutMail: true}, stage: smtp.StageSender},
		"dropped after the mail":   {fault: fault{cutAfter: true}, stage: smtp.StageSent, unknown: true, storedOnce: true},
		"421 in the middle":        {fault: fault{mail: reply(421, gosmtp.EnhancedCode{4, 3, 2}, "closing")}, code: 421, enhanced: "4.3.2", stage: smtp.StageSender},
		"silence after the mail":   {fault: fault{slow: time.Second}, stage: smtp.StageSent, unknown: true, storedOnce: true},
		"no enhanced code at all":  {fault: fault{rcpt: reply(550, gosmtp.NoEnhancedCode, "no")}, code: 550, stage: smtp.StageRecipient, permanent: true},
		"enhanced code by default": {fault: fault{rcpt: reply(452, gosmtp.EnhancedCodeNotSet, "full")}, code: 452, enhanced: "4.0.0", stage: smtp.StageRecipient},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, false, false)
			p := s.pool(t, nil)
			s.fail(tt.fault)
			limit := 5 * time.Second
			if tt.fault.slow > 0 {
				limit = tt.fault.slow / 2
			}
			r := within(t, p, limit)
			if r.Code != tt.code || r.Enhanced != tt.enhanced {
				t.Errorf("code %d %q, want %d %q", r.Code, r.Enhanced, tt.code, tt.enhanced)
			}
			if r.Stage != tt.stage {
				t.Errorf("stage %v, want %v", r.Stage, tt.stage)
			}
			if r.Sent() {
				t.Error("it counts as sent")
			}
			if r.Denied() != tt.denied || r.Unknown() != tt.unknown {
				t.Errorf("denied %t, unknown %t, want %t and %t", r.Denied(), r.Unknown(), tt.denied, tt.unknown)
			}
			if r.Code != 0 && r.Permanent() != tt.permanent {
				t.Errorf("permanent %t, want %t", r.Permanent(), tt.permanent)
			}
			s.fail(fault{})
			if again := deliver(t, p); !again.Sent() {
				t.Errorf("after the fault: %+v", again)
			}
			want := 1
			if tt.storedOnce {
				want = 2
			}
			s.await(t, want)
		})
	}
}

// A server that restarts costs nothing: no mail was on the kept connection.
func TestLostConnectionIsReplaced(t *testing.T) {
	s := serve(t, false, false)
	p := s.pool(t, nil)
	if r := deliver(t, p); !r.Sent() {
		t.Fatalf("reply %+v", r)
	}
	s.dropAll()
	if r := deliver(t, p); !r.Sent() {
		t.Errorf("reply %+v", r)
	}
	if mails, logins, _ := s.count(); mails != 2 || logins != 2 {
		t.Errorf("%d mails by %d logins", mails, logins)
	}
}

func TestNoTLSNoMail(t *testing.T) {
	t.Run("not offered", func(t *testing.T) {
		s := serve(t, false, true)
		if r := deliver(t, s.pool(t, nil)); r.Sent() || !r.TLS() {
			t.Errorf("reply %+v", r)
		}
		if mails, logins, _ := s.count(); mails != 0 || logins != 0 {
			t.Errorf("%d mails and %d logins in the clear", mails, logins)
		}
	})
	for name, security := range map[string]smtp.Security{"STARTTLS": smtp.StartTLS, "TLS": smtp.Implicit} {
		t.Run("strange certificate, "+name, func(t *testing.T) {
			s := serve(t, security == smtp.Implicit, false)
			p := s.pool(t, func(o *smtp.Options) { o.Roots, o.Security = x509.NewCertPool(), security })
			if r := deliver(t, p); r.Sent() || !r.TLS() || r.Denied() {
				t.Errorf("reply %+v", r)
			}
		})
	}
	t.Run("development", func(t *testing.T) {
		s := serve(t, false, true)
		p := s.pool(t, func(o *smtp.Options) { o.Security, o.Username = smtp.None, "" })
		if r := deliver(t, p); !r.Sent() {
			t.Errorf("reply %+v", r)
		}
	})
	if _, err := smtp.New(smtp.Options{Address: "mail.example.com:25", Security: smtp.None}); err == nil {
		t.Error("a pool without encryption to another machine")
	}
}

func TestPasswordIsReadForEachConnection(t *testing.T) {
	s := serve(t, false, false)
	current := "wrong-and-secret"
	var failing error
	p := s.pool(t, func(o *smtp.Options) {
		o.Password = func() (secret.Value, error) { return secret.New(current), failing }
	})
	if r := deliver(t, p); !r.Denied() || r.Code != 535 {
		t.Errorf("reply %+v", r)
	}
	failing = errors.New("no file")
	if r := deliver(t, p); !r.Denied() {
		t.Errorf("reply %+v", r)
	}
	current, failing = password, nil
	if r := deliver(t, p); !r.Sent() {
		t.Errorf("reply %+v", r)
	}
}

func TestSendEndsWithItsContext(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := &server{address: silent.Addr().String()}
	p := s.pool(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := p.Send(ctx, "a@example.com", "b@example.com", []byte(text)) // The server never sends anything.
	if r.Sent() || r.Unknown() {
		t.Errorf("sent %t, unknown %t, want neither", r.Sent(), r.Unknown())
	}
	if !r.Timeout() {
		t.Errorf("%v, want a timeout", r.Err)
	}
}

// BenchmarkSMTP compares the pool with a connection for each mail, over
// STARTTLS, one mail at a time.
func BenchmarkSMTP(b *testing.B) {
	b.Run("pool", func(b *testing.B) {
		s := serve(b, false, false)
		p := s.pool(b, nil)
		for b.Loop() {
			if r := deliver(b, p); !r.Sent() {
				b.Fatal(r.Err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
	})
	b.Run("dial", func(b *testing.B) {
		s := serve(b, false, false)
		for b.Loop() {
			p, err := smtp.New(smtp.Options{
				Address: s.address, Security: smtp.StartTLS, Roots: s.roots, Hello: "localhost", Connections: 1,
				Username: "mailer", Password: func() (secret.Value, error) { return secret.New(password), nil },
			})
			if err != nil {
				b.Fatal(err)
			}
			if r := deliver(b, p); !r.Sent() {
				b.Fatal(r.Err)
			}
			p.Close()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
	})
	b.Run("go-mail DialAndSend", func(b *testing.B) {
		s := serve(b, false, false)
		host, port := "127.0.0.1", 0
		if _, err := fmt.Sscanf(strings.TrimPrefix(s.address, host+":"), "%d", &port); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			dialAndSend(b, s, host, port)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
	})
}

func dialAndSend(b *testing.B, s *server, host string, port int) {
	b.Helper()
	client, err := mail.NewClient(host, mail.WithPort(port), mail.WithTLSPolicy(mail.TLSMandatory), mail.WithHELO("localhost"),
		mail.WithTLSConfig(&tls.Config{RootCAs: s.roots, ServerName: host, MinVersion: tls.VersionTLS12}),
		mail.WithSMTPAuth(mail.SMTPAuthPlain), mail.WithUsername("mailer"), mail.WithPassword(password))
	if err != nil {
		b.Fatal(err)
	}
	m := mail.NewMsg()
	if err := errors.Join(m.From("app@example.com"), m.To("ann@example.com")); err != nil {
		b.Fatal(err)
	}
	m.Subject("hi")
	m.SetBodyString(mail.TypeTextPlain, ".hello")
	if err := client.DialAndSendWithContext(b.Context(), m); err != nil {
		b.Fatal(err)
	}
}
