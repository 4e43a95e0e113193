package smtp_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"

	"switchyard.dev/services/notify/internal/smtp"
	"switchyard.dev/services/platform/secret"
)

const password = "canary-smtp-password"

// fault is what a server does instead of taking a mail.
type fault struct {
	// greet, auth, mail, rcpt and data are replies; nil goes on.
	greet, auth, mail, rcpt, data *gosmtp.SMTPError
	// cutAfter drops the connection when the mail is stored, cutMail when it begins.
	cutAfter, cutMail bool
	// slow delays the answer to a mail.
	slow time.Duration
}

// server is a real mail server on loopback.
type server struct {
	address string
	roots   *x509.CertPool

	mu     sync.Mutex
	fault  fault
	mails  []string
	logins int
	conns  map[net.Conn]bool
}

// serve starts a server; implicit speaks TLS from the first byte, plain offers none.
func serve(tb testing.TB, implicit, plain bool) *server {
	tb.Helper()
	s := &server{conns: make(map[net.Conn]bool)}
	certificate := s.certify(tb)
	backend := gosmtp.NewServer(gosmtp.BackendFunc(s.session))
	backend.Domain = "localhost"
	backend.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if !plain {
		backend.TLSConfig = secure
	}
	backend.AllowInsecureAuth = plain
	var listener net.Listener
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.address = listener.Addr().String()
	listener = &counting{listener, s}
	if implicit {
		listener = tls.NewListener(listener, secure)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = backend.Serve(listener)
	}()
	tb.Cleanup(func() {
		_ = backend.Close()
		_ = listener.Close() // which Serve may not have got to yet
		<-done
	})
	return s
}

func (s *server) certify(tb testing.TB) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pool speaks STARTTLS and logs in unless change says otherwise.
func (s *server) pool(tb testing.TB, change func(*smtp.Options)) *smtp.Pool {
	tb.Helper()
	o := smtp.Options{
		Address: s.address, Security: smtp.StartTLS, Roots: s.roots, Hello: "localhost", Connections: 2,
		Username: "mailer", Password: func() (secret.Value, error) { return secret.New(password), nil },
	}
	if change != nil {
		change(&o)
	}
	p, err := smtp.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func (s *server) fail(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *server) now() fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// count gives mails stored, logins and open connections.
func (s *server) count() (mails, logins, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mails), s.logins, len(s.conns)
}

// await waits until so many mails are stored, and no more.
func (s *server) await(tb testing.TB, want int) {
	tb.Helper()
	for range 300 {
		if mails, _, _ := s.count(); mails >= want {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if mails, _, _ := s.count(); mails != want {
		tb.Errorf("%d mails, want %d", mails, want)
	}
}

// dropAll ends all connections, as a server that restarts does.
func (s *server) dropAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

// counting keeps the open connections, and refuses to greet when told to.
type counting struct {
	net.Listener

	server *server
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if refusal := l.server.now().greet; refusal != nil {
		go func() {
			_, _ = io.WriteString(c, "421 "+refusal.Message+"\r\n")
			_ = c.Close()
		}()
		return l.Accept()
	}
	held := &heldConn{Conn: c, server: l.server}
	l.server.mu.Lock()
	l.server.conns[held] = true
	l.server.mu.Unlock()
	return held, nil
}

type heldConn struct {
	net.Conn

	server *server
}

func (c *heldConn) Close() error {
	err := c.Conn.Close()
	go func() { // dropAll holds the lock
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		delete(c.server.conns, c)
	}()
	return err
}

type session struct {
	server *server
	conn   net.Conn
}

func (s *server) session(c *gosmtp.Conn) (gosmtp.Session, error) {
	return &session{s, c.Conn()}, nil
}

func (*session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, given string) error {
		if f := s.server.now(); f.auth != nil {
			return f.auth
		}
		if user != "mailer" || given != password {
			return &gosmtp.SMTPError{Code: 535, EnhancedCode: gosmtp.EnhancedCode{5, 7, 8}, Message: "bad " + given}
		}
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.logins++
		return nil
	}), nil
}

// errCut stands for a connection that was dropped.
var errCut = errors.New("cut")

func (s *session) Mail(string, *gosmtp.MailOptions) error {
	f := s.server.now()
	if f.cutMail {
		_ = s.conn.Close()
		return errCut
	}
	return asError(f.mail)
}

func (s *session) Rcpt(string, *gosmtp.RcptOptions) error { return asError(s.server.now().rcpt) }

func (s *session) Data(r io.Reader) error {
	var text bytes.Buffer
	if _, err := io.Copy(&text, r); err != nil {
		return err
	}
	f := s.server.now()
	time.Sleep(f.slow)
	if f.data != nil {
		return f.data
	}
	s.server.mu.Lock()
	s.server.mails = append(s.server.mails, text.String())
	s.server.mu.Unlock()
	if f.cutAfter {
		_ = s.conn.Close()
		return errCut
	}
	return nil
}

func (*session) Reset()        {}
func (*session) Logout() error { return nil }

// asError keeps a nil reply from becoming an error that is not nil.
func asError(e *gosmtp.SMTPError) error {
	if e == nil {
		return nil
	}
	return e
}
