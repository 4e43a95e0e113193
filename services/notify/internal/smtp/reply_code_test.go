package smtp_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/services/notify/internal/smtp"
)

// dialogue is a server with a reply for each keyword: "." stands for the text, and "" for the connection.
type dialogue struct {
	mu       sync.Mutex
	replies  map[string]string
	commands []string
}

// newDialogue returns a server that accepts mails, with some replies replaced.
func newDialogue(differ map[string]string) *dialogue {
	replies := map[string]string{
		"": "220 hi", "EHLO": "250-hi\r\n250-STARTTLS\r\n250 AUTH PLAIN", "HELO": "502 no", "STARTTLS": "220 go", "AUTH": "235 ok",
		"MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go", ".": "250 taken", "RSET": "250 ok", "NOOP": "250 ok", "QUIT": "221 bye",
	}
	maps.Copy(replies, differ)
	return &dialogue{replies: replies}
}

// answer records a command and returns its reply.
func (d *dialogue) answer(command string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	keyword, _, _ := strings.Cut(command, " ")
	if command != "" {
		d.commands = append(d.commands, command)
	}
	return d.replies[keyword] + "\r\n"
}

// change sets the reply to a command.
func (d *dialogue) change(keyword, reply string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replies[keyword] = reply
}

// of returns the commands that begin with a keyword.
func (d *dialogue) of(keyword string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.commands), func(c string) bool { return !strings.HasPrefix(c, keyword) })
}

func (d *dialogue) play(c *hostileConn) {
	c.say(d.answer(""))
	for command := c.take(); !c.gone; command = c.take() {
		reply := d.answer(command)
		c.say(reply)
		switch {
		case command == "STARTTLS" && strings.HasPrefix(reply, "2"):
			c.encrypt()
		case command == "DATA" && strings.HasPrefix(reply, "3"):
			for line := c.take(); line != "." && !c.gone; line = c.take() {
			}
			c.say(d.answer("."))
		}
	}
}

// The reply code decides whether a mail is sent again, at each stage and whatever the enhanced code says.
func TestReplyCodeDecides(t *testing.T) {
	stages := map[string]smtp.Stage{
		"": smtp.StageConnect, "EHLO": smtp.StageConnect, "STARTTLS": smtp.StageConnect, "AUTH": smtp.StageConnect,
		"MAIL": smtp.StageSender, "RCPT": smtp.StageRecipient, "DATA": smtp.StageMessage, ".": smtp.StageSent,
	}
	for said, permanent := range map[string]bool{
		"451 5.7.1 greylisted, try again later": false, "450 5.1.1 no": false, "450 5.2.2 full": false, "452 5.3.1 full": false,
		"421 5.7.0 closing": false, "451": false, "451 ": false, "451 try again": false, "499 unknown": false,
		"451-5.7.1 try\r\n451 5.7.1 again": false, "451-\r\n451-x\r\n451 5.7.1 again": false, "450-5.7.1\r\n450": false,
		"550 4.7.1 no": true, "550 4.2.1 no": true, "554 5.6.0 no": true, "554": true, "599 unknown": true, "552 5.3.4 too large": true,
		"550-4.7.1 no\r\n550 4.7.1 never": true,
	} {
		for keyword, stage := range stages {
			t.Run(fmt.Sprintf("%s %.9q", keyword, said), func(t *testing.T) {
				t.Parallel()
				d := newDialogue(map[string]string{keyword: said})
				s := startHostile(t, d.play)
				p := s.pool(t, func(o *smtp.Options) {
					if keyword != "STARTTLS" {
						o.Security = smtp.None
					}
				})
				r := deliver(t, p)
				if want := int(said[0]-'0')*100 + int(said[1]-'0')*10 + int(said[2]-'0'); r.Code != want || r.Stage != stage || r.Sent() || r.Unknown() {
					t.Errorf("reply %+v, want code %d at stage %d", r, want, stage)
				}
				if want := permanent && (r.Code != 552 || keyword != "RCPT"); r.Permanent() != want {
					t.Errorf("permanent %t, want %t", r.Permanent(), want)
				}
				d.change(keyword, newDialogue(nil).replies[keyword])
				if r := deliver(t, p); !r.Sent() {
					t.Errorf("the mail after it: %+v", r)
				}
			})
		}
	}
}

// Each line of a reply repeats the enhanced code.
func TestEnhancedCodes(t *testing.T) {
	for said, want := range map[string][2]string{
		"550 5.1.1 no such user":                       {"5.1.1", "no such user"},
		"550-5.1.1 no such user\r\n550 5.1.1 anywhere": {"5.1.1", "no such user\n anywhere"},
		"550-5.1.1\r\n550 5.1.1 no such user":          {"5.1.1", "no such user"},
		"550 5.1.1":                                    {"5.1.1", ""},
		"550 no such user":                             {"", "no such user"},
		"550 5.1 no":                                   {"", "5.1 no"},
		"550":                                          {"", ""},
	} {
		s := startHostile(t, newDialogue(map[string]string{"RCPT": said}).play)
		r := deliver(t, s.pool(t, func(o *smtp.Options) { o.Security = smtp.None }))
		if got := [2]string{r.Enhanced, r.Text}; got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

// Replies are judged by their first digit, and need no text.
func TestOtherRepliesOfSuccess(t *testing.T) {
	for name, differ := range map[string]map[string]string{
		"without text": {"": "220", "AUTH": "235", "MAIL": "250", "RCPT": "250", "DATA": "354", ".": "250"},
		"other digits": {"": "200 hi", "AUTH": "200 ok", "MAIL": "259 ok", "RCPT": "251 forwarded", "DATA": "350 go", ".": "200 taken"},
		"many lines":   {"": "220-\r\n220 hi", "MAIL": "250-2.1.0\r\n250", "RCPT": "250-ok\r\n250 ok", ".": "250-\r\n250-\r\n250 taken"},
		"HELO alone":   {"EHLO": "502 5.5.1 no", "HELO": "250 hi"},
	} {
		s := startHostile(t, newDialogue(differ).play)
		p := s.pool(t, func(o *smtp.Options) {
			if o.Security = smtp.None; differ["HELO"] != "" {
				o.Username = ""
			}
		})
		for range 2 {
			if r := deliver(t, p); !r.Sent() {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

// Servers may write extension keywords and login mechanisms in any case.
func TestExtensionsInAnyCase(t *testing.T) {
	for said, login := range map[string]string{
		"250-hi\r\n250-STARTTLS\r\n250 AUTH LOGIN PLAIN":             "AUTH PLAIN ",
		"250-hi\r\n250-starttls\r\n250 auth plain":                   "AUTH PLAIN ",
		"250-hi\r\n250-Starttls\r\n250 Auth Plain":                   "AUTH PLAIN ",
		"250-hi\r\n250-StArTtLs\r\n250-Size 1\r\n250 AuTh\tpLaIn":    "AUTH PLAIN ",
		"250-\r\n250-starttls \r\n250 auth=plain login":              "AUTH PLAIN ",
		"250-hi\r\n250-STARTTLS\r\n250-auth=login\r\n250 AUTH plain": "AUTH PLAIN ",
	} {
		d := newDialogue(map[string]string{"EHLO": said})
		s := startHostile(t, d.play)
		if r := deliver(t, s.pool(t, nil)); !r.Sent() {
			t.Errorf("%q: %+v", said, r)
		}
		if got := d.of("AUTH"); len(got) != 1 || !strings.HasPrefix(got[0], login) || len(d.of("STARTTLS")) != 1 {
			t.Errorf("%q: commands %q", said, d.commands)
		}
	}
}

// A mail asks only for extensions that it needs, whatever the server offers.
func TestExtensionsByNeed(t *testing.T) {
	const ascii, eightBit = "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nhi\r\n", "Subject: hi\r\n\r\nGrüße\r\n"
	all := "250-hi\r\n250-smtputf8\r\n250-8bitmime\r\n250-DSN\r\n250-SIZE 99\r\n250-PIPELINING\r\n250-SMTPUTF8\r\n250 AUTH PLAIN"
	for name, tt := range map[string]struct{ offered, text, want string }{
		"ASCII":                {all, ascii, "MAIL FROM:<app@example.com>"},
		"eight bits":           {all, eightBit, "MAIL FROM:<app@example.com> BODY=8BITMIME"},
		"eight bits, no offer": {"250-hi\r\n250 AUTH PLAIN", eightBit, "MAIL FROM:<app@example.com>"},
	} {
		d := newDialogue(map[string]string{"EHLO": tt.offered})
		p := startHostile(t, d.play).pool(t, func(o *smtp.Options) { o.Security = smtp.None })
		if r := p.Send(t.Context(), "app@example.com", "ann@example.com", []byte(tt.text)); !r.Sent() {
			t.Errorf("%s: %+v", name, r)
		}
		if got := d.of("MAIL"); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if r := p.Send(t.Context(), "app@example.com", "änn@example.com", []byte(tt.text)); r.Code != 553 || len(d.of("MAIL")) != 1 {
			t.Errorf("%s: an address beyond ASCII: %+v", name, r)
		}
	}
}

// A server that replies 421 on a kept connection has taken nothing, so the mail goes over another connection.
func TestClosingOfAKeptConnection(t *testing.T) {
	d := newDialogue(nil)
	var connections atomic.Int32
	s := startHostile(t, func(c *hostileConn) {
		if connections.Add(1) > 1 {
			d.play(c)
			return
		}
		c.offer()
		c.mail(4)
		c.take()
		c.say("421 4.4.2 idle for too long\r\n")
	})
	p := s.pool(t, func(o *smtp.Options) { o.Security = smtp.None })
	for range 2 {
		if r := deliver(t, p); !r.Sent() {
			t.Errorf("reply %+v", r)
		}
	}
	if got := d.of("RCPT"); len(got) != 1 {
		t.Errorf("%d mails over the second connection, want one", len(got))
	}
}
