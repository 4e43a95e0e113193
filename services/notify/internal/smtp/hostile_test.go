package smtp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/smtp"
)

// script is what a hostile server does on a connection.
type script func(c *hostileConn)

// hostileConn is a connection on which a script plays the server.
type hostileConn struct {
	net.Conn

	lines  *bufio.Reader
	secure *tls.Config
	gone   bool
}

func (c *hostileConn) say(text string) { _, _ = io.WriteString(c.Conn, text) }

// take reads a command.
func (c *hostileConn) take() string {
	line, err := c.lines.ReadString('\n')
	c.gone = err != nil
	return strings.TrimSpace(line)
}

// endless repeats a text until the client has left.
func (c *hostileConn) endless(text string) {
	block := strings.Repeat(text, 1+4096/len(text))
	for {
		if _, err := io.WriteString(c.Conn, block); err != nil {
			return
		}
	}
}

// login greets, encrypts and asks for no login.
func (c *hostileConn) login() {
	c.say("220 hi\r\n")
	c.take()
	c.say("250-hi\r\n250 STARTTLS\r\n")
	c.take()
	c.say("220 go\r\n")
	c.encrypt()
	c.take()
	c.say("250 hi\r\n")
}

func (c *hostileConn) encrypt() {
	c.Conn = tls.Server(c.Conn, c.secure)
	c.lines = bufio.NewReader(c.Conn)
}

// mail takes the commands of a mail and answers all but the last of so many.
func (c *hostileConn) mail(answered int) {
	for i, reply := range []string{"250 ok\r\n", "250 ok\r\n", "354 go on\r\n", "250 taken\r\n"} {
		if i == 3 {
			for line := c.take(); line != "." && !c.gone; line = c.take() {
			}
		} else {
			c.take()
		}
		if i == answered {
			return
		}
		c.say(reply)
	}
}

// startHostile runs a server whose connections play a script, one after another.
func startHostile(tb testing.TB, play script) *server {
	tb.Helper()
	s := &server{conns: map[net.Conn]bool{}}
	secure := &tls.Config{Certificates: []tls.Certificate{s.certify(tb)}, MinVersion: tls.VersionTLS12}
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.address = listener.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			running.Go(func() {
				defer c.Close()
				play(&hostileConn{Conn: c, lines: bufio.NewReader(c), secure: secure})
			})
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		s.dropAll()
		running.Wait()
	})
	return s
}

// challenge is a question of a login.
func challenge(text string) string {
	return "334 " + base64.StdEncoding.EncodeToString([]byte(text)) + "\r\n"
}

// scram asks for so many iterations.
func scram(iterations string) script {
	return func(c *hostileConn) {
		c.say("220 hi\r\n")
		c.take()
		c.say("250-hi\r\n250 AUTH SCRAM-SHA-256\r\n")
		c.take()
		c.say("334 \r\n")
		first, _ := base64.StdEncoding.DecodeString(c.take())
		_, nonce, _ := strings.Cut(string(first), ",r=")
		c.say(challenge("r=" + nonce + "x,s=c2FsdA==,i=" + iterations))
		c.take()
		c.say("235 ok\r\n")
		c.mail(4)
	}
}

// In the clear, as a server on the machine itself is spoken to; any server can do it.
var plainScripts = map[string]script{
	"a greeting of endless lines": func(c *hostileConn) { c.endless("220-hi\r\n") },
	"a greeting without an end":   func(c *hostileConn) { c.endless("2") },
	"lines of other codes":        func(c *hostileConn) { c.say("220-hi\r\n"); c.endless("550 no\r\n") },
	"endless extensions":          func(c *hostileConn) { c.say("220 hi\r\n"); c.take(); c.endless("250-X\r\n") },
	"a greeting that is no reply": func(c *hostileConn) { c.say("SSH-2.0-x\r\n") },
	"code 99":                     func(c *hostileConn) { c.say("99 hi\r\n") },
	"code -22":                    func(c *hostileConn) { c.say("-22 hi\r\n") },
	"replies before the commands": func(c *hostileConn) {
		c.say("220 hi\r\n250 hi\r\n250 ok\r\n250 ok\r\n354 go\r\n250 taken\r\n")
		c.take()
	},
	"a login without an end": func(c *hostileConn) {
		c.say("220 hi\r\n")
		c.take()
		c.say("250-hi\r\n250 AUTH SCRAM-SHA-1\r\n")
		c.take()
		c.questions()
	},
	"two thousand million rounds": scram("2000000000"),
	"rounds beyond all numbers":   scram(strings.Repeat("9", 40)),
	"negative rounds":             scram("-1"),
	"no login that may be used": func(c *hostileConn) {
		c.say("220 hi\r\n")
		c.take()
		c.say("250-hi\r\n250 AUTH NTLM CRAM-MD5\r\n")
		c.take()
	},
	"code 999 for the sender":      func(c *hostileConn) { c.offer(); c.take(); c.say("999 no\r\n") },
	"code 250 in place of 354":     func(c *hostileConn) { c.offer(); c.mail(2); c.say("250 ok\r\n") },
	"an endless line for the mail": func(c *hostileConn) { c.offer(); c.mail(3); c.endless("2") },
	"endless lines for the mail":   func(c *hostileConn) { c.offer(); c.mail(3); c.endless("250-ok\r\n") },
	"endless bytes for the sender": func(c *hostileConn) { c.offer(); c.take(); c.endless("\x00") },
	"many replies for the sender":  func(c *hostileConn) { c.offer(); c.take(); c.endless("250 ok\r\n") },
	"the mail is taken beforehand": func(c *hostileConn) {
		c.offer()
		c.take()
		c.say("250 ok\r\n250 ok\r\n354 go\r\n250 taken\r\n")
		c.take()
	},
	"a reply of megabytes, refused": func(c *hostileConn) {
		c.offer()
		c.take()
		c.say("550-" + strings.Repeat("x", 1<<20) + "\r\n550 no\r\n")
	},
}

// questions repeats the first question of a login.
func (c *hostileConn) questions() {
	for !c.gone {
		c.say("334 \r\n")
		c.take()
	}
}

// offer is a login in the clear, by SCRAM.
func (c *hostileConn) offer() {
	c.say("220 hi\r\n")
	c.take()
	c.say("250-hi\r\n250 AUTH PLAIN\r\n")
	c.take()
	c.say("235 ok\r\n")
}

// Over STARTTLS.
var secureScripts = map[string]script{
	"STARTTLS is stripped": func(c *hostileConn) { c.say("220 hi\r\n"); c.take(); c.say("250-hi\r\n250 AUTH PLAIN\r\n"); c.take() },
	"STARTTLS is refused": func(c *hostileConn) {
		c.say("220 hi\r\n")
		c.take()
		c.say("250 STARTTLS\r\n")
		c.take()
		c.say("454 no\r\n")
	},
	"replies before the handshake": func(c *hostileConn) { c.begin("220 go\r\n250-hi\r\n250 AUTH PLAIN\r\n") },
	"half a reply before it":       func(c *hostileConn) { c.begin("220 go\r\n2") },
	"endless lines in place of it": func(c *hostileConn) { c.begin("220 go\r\n"); c.endless("250-x\r\n") },
	"endless replies, encrypted":   func(c *hostileConn) { c.login(); c.mail(0); c.endless("250-x\r\n") },
	"an endless line, encrypted":   func(c *hostileConn) { c.login(); c.take(); c.endless("x") },
	"replies beforehand, encrypted": func(c *hostileConn) {
		c.login()
		c.take()
		c.say("250 ok\r\n250 ok\r\n354 go\r\n250 taken\r\n")
		c.take()
	},
	"code 250 in place of 354": func(c *hostileConn) { c.login(); c.mail(2); c.say("250 ok\r\n") },
	"endless lines for a mail": func(c *hostileConn) { c.login(); c.mail(3); c.endless("250-ok\r\n") },
}

func (c *hostileConn) begin(reply string) {
	c.say("220 hi\r\n")
	c.take()
	c.say("250-hi\r\n250 STARTTLS\r\n")
	c.take()
	c.say(reply)
	c.take()
}

// A server that answers with too much, out of turn or without sense gets no mail
// through, and takes neither memory nor time.
func TestHostileServers(t *testing.T) {
	for security, scripts := range map[smtp.Security]map[string]script{smtp.None: plainScripts, smtp.StartTLS: secureScripts} {
		for name, play := range scripts {
			t.Run(fmt.Sprint(security, ", ", name), func(t *testing.T) {
				s := startHostile(t, play)
				p := s.pool(t, func(o *smtp.Options) {
					if o.Security = security; security == smtp.StartTLS && !strings.HasPrefix(name, "STARTTLS") {
						o.Username = ""
					}
				})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r := within(t, p, 3*time.Second)
				runtime.ReadMemStats(&after)
				if r.Sent() || r.Timeout() {
					t.Errorf("sent %t, timed out %t, want neither: %v", r.Sent(), r.Timeout(), r.Err)
				}
				if r.Code != 0 && (r.Code < 400 || r.Code >= 600) {
					t.Errorf("code %d, want none or a refusal", r.Code)
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > 24<<20 {
					t.Errorf("%d bytes allocated", took)
				}
			})
		}
	}
}

// A server that sends a byte now and then holds a mail no longer than its time.
func TestTrickledReply(t *testing.T) {
	s := startHostile(t, func(c *hostileConn) {
		c.offer()
		c.take()
		for !c.gone {
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			c.say("2")
			_, err := c.lines.ReadByte()
			c.gone = !errors.Is(err, os.ErrDeadlineExceeded)
		}
	})
	p := s.pool(t, func(o *smtp.Options) { o.Security = smtp.None })
	if r := within(t, p, 100*time.Millisecond); r.Sent() || r.Code != 0 {
		t.Errorf("reply %+v", r)
	}
}

// What a server sends behind its answer to a mail is not taken for the answer to the next.
func TestSurplusOfAMailEndsTheConnection(t *testing.T) {
	for security, login := range map[smtp.Security]script{smtp.None: (*hostileConn).offer, smtp.StartTLS: (*hostileConn).login} {
		var connections atomic.Int64
		s := startHostile(t, func(c *hostileConn) {
			connections.Add(1)
			login(c)
			c.mail(3)
			c.say("250 taken\r\n550 no\r\n")
			c.take()
		})
		p := s.pool(t, func(o *smtp.Options) {
			if o.Security = security; security == smtp.StartTLS {
				o.Username = ""
			}
		})
		for i := range 2 {
			if r := deliver(t, p); !r.Sent() {
				t.Errorf("%s, mail %d: reply %+v", security, i, r)
			}
		}
		if n := connections.Load(); n != 2 {
			t.Errorf("%s: %d connections for 2 mails", security, n)
		}
	}
}

// A server that answers QUIT without end doesn't hold up Close.
func TestEndlessFarewell(t *testing.T) {
	s := startHostile(t, func(c *hostileConn) {
		c.offer()
		c.mail(4)
		c.take()
		c.endless("221-bye\r\n")
	})
	p := s.pool(t, func(o *smtp.Options) { o.Security = smtp.None })
	if r := deliver(t, p); !r.Sent() {
		t.Fatalf("reply %+v", r)
	}
	p.Close() // returns
}

// No address adds a command or a parameter.
func TestAddressesOfOneLine(t *testing.T) {
	s := serve(t, false, false)
	p := s.pool(t, nil)
	for _, address := range []string{"a@example.com\r\nRCPT TO:<b@example.com>", "a@example.com\n", "a@example.com\r", "a@example.com> SIZE=1", "<a@example.com", "a\x00@example.com", "a b@example.com"} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		for _, r := range []smtp.Reply{p.Send(ctx, address, "ann@example.com", []byte(text)), p.Send(ctx, "app@example.com", address, []byte(text))} {
			if r.Sent() || r.Code != 553 || !r.Permanent() {
				t.Errorf("%q: reply %+v", address, r)
			}
		}
		cancel()
	}
	if mails, logins, _ := s.count(); mails != 0 || logins != 0 {
		t.Errorf("%d mails, %d logins", mails, logins)
	}
}
