package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/textproto"
	"strings"
	"time"
)

// Stage is how far a mail transaction got.
type Stage int

// The stages, in order. From StageSent on the server may have accepted the mail.
const (
	StageConnect Stage = iota
	StageSender
	StageRecipient
	StageMessage
	StageSent
)

// codeClosing is the reply of a server that closes the connection (RFC 5321, 3.8).
const codeClosing = 421

// Reply is the result of sending a mail.
type Reply struct {
	// Code is that of the server's last reply; zero when the connection failed.
	Code int
	// Enhanced is its enhanced code, such as "5.1.1" (RFC 3463); empty for none.
	Enhanced string
	// Text is the text of the reply.
	Text string
	// Stage is the last stage that was reached.
	Stage Stage
	// Err is nil when the server accepted the mail. It may contain the server's text.
	Err error
}

// Sent reports whether the server accepted the mail.
func (r Reply) Sent() bool { return r.Err == nil }

// Unknown reports whether the whole mail was sent and no reply came.
func (r Reply) Unknown() bool { return r.Err != nil && r.Code == 0 && r.Stage == StageSent }

// Denied reports whether the server refused the login.
func (r Reply) Denied() bool {
	return errors.Is(r.Err, errPassword) || r.Code == 530 || r.Code == 534 || r.Code == 535 || r.Code == 538
}

// Unasked reports whether the mail failed before the server was asked: the password can't be read, or an address is
// invalid.
func (r Reply) Unasked() bool { return errors.Is(r.Err, errPassword) || errors.Is(r.Err, errAddress) }

// TLS reports whether the encrypted connection failed.
func (r Reply) TLS() bool {
	if r.Stage != StageConnect {
		return false
	}
	var handshake *tlsError
	var alert tls.AlertError
	return errors.Is(r.Err, errNoTLS) || errors.As(r.Err, &handshake) || errors.As(r.Err, &alert)
}

// Timeout reports whether the time ran out.
func (r Reply) Timeout() bool {
	n, ok := errors.AsType[net.Error](r.Err)
	return errors.Is(r.Err, context.DeadlineExceeded) || ok && n.Timeout()
}

// codeStorage is the reply if the server can't take so much data. Old servers also send it for too many recipients.
const codeStorage = 552

// Permanent reports whether the server refuses the mail for good. The reply code decides, whatever the enhanced code
// says (RFC 5321, 4.2.1). A 552 for a recipient counts as 452: too many recipients for now (4.5.3.1.10).
func (r Reply) Permanent() bool {
	return r.Code >= 500 && (r.Code != codeStorage || r.Stage != StageRecipient)
}

// send makes one mail transaction.
func (c *conn) send(ctx context.Context, from, to string, data []byte) Reply {
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return replyOf(StageSender, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	c.mails++
	if err := c.mail(from, data); err != nil {
		return replyOf(StageSender, err)
	}
	if err := c.recipient(to); err != nil {
		return replyOf(StageRecipient, err)
	}
	if err := c.begin(); err != nil {
		return replyOf(StageMessage, err)
	}
	w := c.dotWriter()
	if _, err := w.Write(data); err != nil {
		return replyOf(StageMessage, err)
	}
	err := w.Close()
	if err == nil {
		_, _, err = c.readReply(success)
	}
	if err != nil {
		return replyOf(StageSent, err)
	}
	return Reply{Code: 250, Stage: StageSent}
}

// codeAddress is the reply to an invalid address (RFC 5321, 4.2.3).
const codeAddress = 553

var errAddress = errors.New("smtp: the address would end its command or add to it")

// isPath reports whether an address is ASCII and stays within the brackets of its command.
func isPath(address string) bool {
	return !strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' || r == '<' || r == '>' })
}

// replyOf converts a failed step. A code that is not a refusal, or not a reply code (RFC 5321, 4.2.1), is ignored.
func replyOf(stage Stage, err error) Reply {
	r := Reply{Stage: stage, Err: err}
	said, ok := errors.AsType[*textproto.Error](err)
	if !ok || said.Code < 400 || said.Code > 599 {
		return r
	}
	r.Code, r.Text = said.Code, said.Msg
	if words := strings.FieldsFunc(said.Msg, func(r rune) bool { return r == ' ' || r == '\n' }); len(words) > 0 && isEnhanced(words[0]) {
		r.Enhanced = words[0] // Each line repeats it.
		r.Text = strings.TrimSpace(strings.ReplaceAll("\n"+said.Msg, "\n"+words[0], "\n"))
	}
	return r
}

// isEnhanced reports whether a word is a status code of RFC 3463.
func isEnhanced(word string) bool {
	if len(word) < 5 || word[1] != '.' || !strings.ContainsRune("245", rune(word[0])) {
		return false
	}
	subject, detail, ok := strings.Cut(word[2:], ".")
	return ok && digits(subject) && digits(detail)
}

func digits(s string) bool { return s != "" && len(s) <= 3 && strings.Trim(s, "0123456789") == "" }

// alive reports whether the connection still works.
func (c *conn) alive() bool { return c.quick("NOOP") }

// reset ends a failed transaction.
func (c *conn) reset() bool { return c.quick("RSET") }

// quick sends a command and reports whether it succeeds within quitTimeout.
func (c *conn) quick(line string) bool {
	if c.SetDeadline(time.Now().Add(quitTimeout)) != nil {
		return false
	}
	_, _, err := c.command(line, success)
	return err == nil
}

// quit sends QUIT and closes the connection, whatever the reply.
func (c *conn) quit() {
	_ = c.quick("QUIT")
	c.drop()
}

// drop closes the connection and sends nothing; over TLS, Close would send an alert first.
func (c *conn) drop() { _ = c.raw.Close() }
