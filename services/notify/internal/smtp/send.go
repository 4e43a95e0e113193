package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
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

// TLS reports whether the encrypted connection failed.
func (r Reply) TLS() bool {
	if r.Stage != StageConnect {
		return false
	}
	var handshake *tlsError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var verify *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return errors.As(r.Err, &handshake) || errors.As(r.Err, &record) || errors.As(r.Err, &alert) || errors.As(r.Err, &verify) ||
		errors.As(r.Err, &unknown) || r.Err != nil && strings.Contains(r.Err.Error(), "STARTTLS")
}

// Timeout reports whether the time ran out.
func (r Reply) Timeout() bool {
	n, ok := errors.AsType[net.Error](r.Err)
	return errors.Is(r.Err, context.DeadlineExceeded) || ok && n.Timeout()
}

// Permanent reports whether the server refuses the mail for good. If code and enhanced code disagree, the enhanced
// one counts, since it is more specific.
func (r Reply) Permanent() bool {
	if r.Enhanced != "" {
		return r.Enhanced[0] == '5'
	}
	return r.Code >= 500
}

// send makes one mail transaction.
func (c *conn) send(ctx context.Context, from, to string, data []byte) Reply {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.raw.SetDeadline(deadline); err != nil {
			return replyOf(StageSender, err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = c.raw.SetDeadline(time.Now()) })
	defer stop()
	c.mails++
	if err := c.command(func() error { return c.client.Mail(path(from)) }); err != nil {
		return replyOf(StageSender, err)
	}
	if err := c.command(func() error { return c.client.Rcpt(path(to)) }); err != nil {
		return replyOf(StageRecipient, err)
	}
	var w io.WriteCloser
	if err := c.command(func() (err error) { w, err = c.client.Data(); return err }); err != nil {
		return replyOf(StageMessage, err)
	}
	if c.surplus() {
		return replyOf(StageMessage, errUnasked)
	}
	if _, err := w.Write(data); err != nil {
		return replyOf(StageMessage, err)
	}
	// Close sends the rest with the final dot, and reads the reply.
	if err := w.Close(); err != nil {
		return replyOf(StageSent, err)
	}
	return Reply{Code: 250, Stage: StageSent}
}

// command runs give, unless unexpected data would be read as its reply.
func (c *conn) command(give func() error) error {
	if c.surplus() {
		return errUnasked
	}
	return give()
}

// surplus reports whether the server has sent data that no command asked for. It would be read as the reply to the
// next one.
func (c *conn) surplus() bool { return c.client.Text.R.Buffered() > 0 }

// codeAddress is the reply to an invalid address (RFC 5321, 4.2.3).
const codeAddress = 553

var errAddress = errors.New("smtp: the address would end its command or add to it")

// isPath reports whether an address stays within the brackets of its command.
func isPath(address string) bool {
	return !strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '<' || r == '>' })
}

func path(address string) string { return "<" + address + ">" }

// replyOf converts a failed step. A code that is not a refusal, or not a reply code (RFC 5321, 4.2.1), is ignored.
func replyOf(stage Stage, err error) Reply {
	r := Reply{Stage: stage, Err: err}
	said, ok := errors.AsType[*textproto.Error](err)
	if !ok || said.Code < 400 || said.Code > 599 {
		return r
	}
	r.Code, r.Text = said.Code, said.Msg
	if word, rest, _ := strings.Cut(said.Msg, " "); isEnhanced(word) {
		r.Enhanced, r.Text = word, rest
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
func (c *conn) alive() bool { return c.quick(c.client.Noop) }

// reset ends a failed transaction.
func (c *conn) reset() bool { return c.quick(c.client.Reset) }

func (c *conn) quick(command func() error) bool {
	return c.raw.SetDeadline(time.Now().Add(quitTimeout)) == nil && command() == nil
}

// quit sends QUIT and closes the connection, whatever the reply.
func (c *conn) quit() {
	_ = c.quick(c.client.Quit)
	_ = c.raw.Close()
}

func (c *conn) drop() { _ = c.raw.Close() }
