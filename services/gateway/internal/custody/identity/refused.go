package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/secret"
)

// RefusedError is the answer of a token server that is no token. It holds no text of the answer but Code.
type RefusedError struct {
	// Host is the token server.
	Host string
	// Status is the HTTP status; 0 if the answer has none.
	Status int
	// Code is the server's own code, such as "invalid_grant" or "AADSTS7000222"; empty if it has none that is safe to
	// show.
	Code string
}

// Error implements error.
func (r *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("refused")
	if r.Host != "" {
		b.WriteString(" by " + r.Host)
	}
	if r.Status != 0 {
		b.WriteString(": status " + strconv.Itoa(r.Status))
	}
	if r.Code != "" {
		b.WriteString(": " + r.Code)
	}
	return b.String()
}

var (
	// code matches the codes of OAuth and AWS. A secret or a token has digits or is longer.
	code = regexp.MustCompile(`^[A-Za-z_.]{1,48}$`)
	// entraCode matches the number with which Entra names an error in the text of its answer.
	entraCode = regexp.MustCompile(`AADSTS[0-9]{4,7}`)
)

// Code returns a token server's error code if it is safe to show, and "" otherwise.
func Code(text string) string {
	if code.MatchString(text) {
		return text
	}
	return ""
}

// EntraCode returns the number of Entra's error in a text, such as "AADSTS7000222"; "" if there is none.
func EntraCode(text string) string { return entraCode.FindString(text) }

// Plain returns an error of a library without the text of any answer: what a caller may see of a failure to reach a
// server, to read a file, or of a time-out. what is the operation.
func Plain(err error, what string) error {
	if refusal, ok := errors.AsType[*RefusedError](err); ok {
		return refusal
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, ErrRedirected, ErrTooLarge, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s: %w", what, known)
		}
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%s: %w", what, path)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		host := "the token server"
		if at, err := url.Parse(failed.URL); err == nil {
			host = at.Host
		}
		return fmt.Errorf("%s: %s: %w", what, host, failed.Err)
	}
	if broken, ok := errors.AsType[*net.OpError](err); ok { // It names addresses.
		return fmt.Errorf("%s: %w", what, broken)
	}
	return fmt.Errorf("%s: failed; the cause is not shown, as it may hold what was sent", what)
}

// ReadToken returns the text of a token's file without the white space around it. A file is read anew for each
// exchange, since clusters replace the tokens in them. One that is missing, empty, larger than 64 KiB or that could not
// stand in a header is an error.
func ReadToken(file secret.File) (secret.Value, error) {
	value, err := file.Read()
	if err != nil {
		return secret.Value{}, err
	}
	text := strings.TrimSpace(value.Reveal())
	switch {
	case len(text) > maxToken:
		return secret.Value{}, fmt.Errorf("file %s: want at most %d bytes", file, maxToken)
	case !printable(text):
		return secret.Value{}, fmt.Errorf("file %s: want one line without blanks", file)
	}
	return secret.New(text), nil
}

// maxToken is the largest token that is read from a file, in bytes.
const maxToken = 64 << 10
