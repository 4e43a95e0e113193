package smtp

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wneessen/go-mail/smtp"
)

var (
	errNoTLS   = errors.New("smtp: the server offers no STARTTLS")
	errNoReply = errors.New("smtp: the server's reply does not begin with a code of three digits")
)

// protocol is the client's side of SMTP (RFC 5321) on a connection. If the server refuses a command, the error is a
// *textproto.Error.
type protocol struct {
	net.Conn

	lines *bufio.Reader
	// extensions holds the parameters of the server's extensions by keyword, all in upper case.
	extensions map[string][]string
}

// newProtocol reads the server's greeting and returns the protocol.
func newProtocol(c net.Conn) (*protocol, error) {
	p := &protocol{Conn: c, lines: bufio.NewReader(c)}
	_, _, err := p.readReply(success)
	return p, err
}

// First digits of replies with which a transaction continues. A client acts on the first digit alone (RFC 5321, 4.3.2).
const success, intermediate = 2, 3

// command sends a command and reads its reply, which must begin with one of the wanted digits.
func (p *protocol) command(line string, want ...int) (code int, text string, err error) {
	if p.surplus() {
		return 0, "", errUnasked
	}
	if _, err := io.WriteString(p.Conn, line+"\r\n"); err != nil {
		return 0, "", err
	}
	return p.readReply(want...)
}

// surplus reports whether the server has sent data that no command asked for. It would be read as the reply to the next
// command.
func (p *protocol) surplus() bool { return p.lines.Buffered() > 0 }

// readReply reads a reply of one or more lines. The code of the last line decides. A line has a code and optional text.
func (p *protocol) readReply(want ...int) (code int, text string, err error) {
	var said []string
	for more := true; more; {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			return 0, "", noEOF(err)
		}
		line = strings.TrimRight(line, "\r\n")
		digits := line[:min(len(line), 3)]
		rest := line[len(digits):]
		if code, err = strconv.Atoi(digits); err != nil || code < 100 || rest != "" && rest[0] != ' ' && rest[0] != '-' {
			return 0, "", errNoReply
		}
		more = strings.HasPrefix(rest, "-")
		said = append(said, rest[min(len(rest), 1):])
	}
	text = strings.Join(said, "\n")
	if !slices.Contains(want, code/100) {
		return code, text, &textproto.Error{Code: code, Msg: text}
	}
	return code, text, nil
}

// noEOF replaces io.EOF within a reply, which readers would take for the end of the mail, by io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// hello introduces the client with EHLO, or with HELO if the server refuses EHLO.
func (p *protocol) hello(name string) error {
	_, text, err := p.command("EHLO "+name, success)
	if err == nil {
		p.extensions = parseExtensions(text)
		return nil
	}
	if refused, ok := errors.AsType[*textproto.Error](err); ok && refused.Code/100 == 5 {
		if _, _, old := p.command("HELO "+name, success); old == nil {
			p.extensions = nil
			return nil
		}
	}
	return err
}

// parseExtensions reads the lines after the first line of a reply to EHLO. Keywords and mechanisms may be in any case
// (RFC 5321, 4.1.1.1; RFC 4954, 3). Some servers also list mechanisms as "AUTH=LOGIN", the form used before RFC 2554.
func parseExtensions(text string) map[string][]string {
	extensions := make(map[string][]string)
	_, text, _ = strings.Cut(text, "\n")
	for line := range strings.SplitSeq(strings.ToUpper(text), "\n") {
		if words := strings.Fields(strings.Replace(line, "AUTH=", "AUTH ", 1)); len(words) > 0 {
			extensions[words[0]] = append(extensions[words[0]], words[1:]...)
		}
	}
	return extensions
}

// offers reports whether the server announced an extension.
func (p *protocol) offers(keyword string) bool {
	_, ok := p.extensions[keyword]
	return ok
}

// startTLS encrypts the connection and introduces the client again, since what the server announced before no longer
// counts (RFC 3207, 4.2).
func (p *protocol) startTLS(ctx context.Context, secure *tls.Config, name string) error {
	if !p.offers("STARTTLS") {
		return errNoTLS
	}
	if _, _, err := p.command("STARTTLS", success); err != nil {
		return err
	}
	if p.surplus() {
		return errUnasked
	}
	over := tls.Client(p.Conn, secure)
	if err := over.HandshakeContext(ctx); err != nil {
		return &tlsError{err}
	}
	p.Conn, p.lines = over, bufio.NewReader(over)
	return p.hello(name)
}

// authenticate logs in (RFC 4954).
func (p *protocol) authenticate(host string, a smtp.Auth) error {
	_, encrypted := p.Conn.(*tls.Conn)
	mechanism, response, err := a.Start(&smtp.ServerInfo{Name: host, TLS: encrypted, Auth: p.extensions["AUTH"]})
	if err != nil {
		return err
	}
	line := "AUTH " + mechanism
	if len(response) > 0 {
		line += " " + base64.StdEncoding.EncodeToString(response)
	}
	for {
		code, text, err := p.command(line, success, intermediate)
		if err != nil {
			return err
		}
		challenge := []byte(text)
		if code/100 == success {
			_, err = a.Next(challenge, false)
			return err
		}
		if challenge, err = base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("smtp: read the challenge of %s: %w", mechanism, err)
		}
		if response, err = a.Next(challenge, true); err != nil {
			return err
		}
		line = base64.StdEncoding.EncodeToString(response)
	}
}

// mail begins a transaction. It asks for BODY=8BITMIME only if the text needs it, and never for SMTPUTF8, since
// addresses are ASCII (isPath) and headers are encoded. A relay has to bounce a mail that asks for an extension that
// the next hop lacks.
func (p *protocol) mail(from string, data []byte) error {
	line := "MAIL FROM:<" + from + ">"
	if p.offers("8BITMIME") && slices.ContainsFunc(data, func(b byte) bool { return b >= utf8.RuneSelf }) {
		line += " BODY=8BITMIME"
	}
	_, _, err := p.command(line, success)
	return err
}

// recipient names the mail's one recipient.
func (p *protocol) recipient(to string) error {
	_, _, err := p.command("RCPT TO:<"+to+">", success)
	return err
}

// begin asks the server to take the text.
func (p *protocol) begin() error {
	if _, _, err := p.command("DATA", intermediate); err != nil {
		return err
	}
	if p.surplus() {
		return errUnasked
	}
	return nil
}

// dotWriter returns a writer for the text. Its Close sends the final dot.
func (p *protocol) dotWriter() io.WriteCloser {
	return textproto.NewWriter(bufio.NewWriter(p.Conn)).DotWriter()
}
