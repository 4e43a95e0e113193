package smtp

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/wneessen/go-mail/smtp"

	"switchyard.dev/services/platform/secret"
)

const (
	// maxIterations bounds the SCRAM work that a server may ask for, which cannot be interrupted: less than a second.
	// Servers ask for 4,096 to 600,000.
	maxIterations = 1_000_000
	// maxChallenges bounds the rounds of a login. SCRAM has three.
	maxChallenges = 5
)

var (
	errNoLogin    = errors.New("smtp: the server offers no login by SCRAM-SHA-256, SCRAM-SHA-1, PLAIN or LOGIN")
	errIterations = errors.New("smtp: the server asks for more than 1000000 iterations of SCRAM")
	errChallenges = errors.New("smtp: the server asks more than 5 questions at the login")
)

// login authenticates with the first supported mechanism of the server. PLAIN and LOGIN require an encrypted
// connection.
type login struct {
	smtp.Auth

	host, username string
	password       secret.Value
	challenges     int
}

// Start implements smtp.Auth.
func (l *login) Start(server *smtp.ServerInfo) (string, []byte, error) {
	password := l.password.Reveal()
	for _, mechanism := range []struct {
		name string
		auth smtp.Auth
	}{
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(l.username, password)},
		{"SCRAM-SHA-1", smtp.ScramSHA1Auth(l.username, password)},
		{"PLAIN", smtp.PlainAuth("", l.username, password, l.host, false)},
		{"LOGIN", smtp.LoginAuth(l.username, password, l.host, false)},
	} {
		if slices.Contains(server.Auth, mechanism.name) {
			l.Auth = mechanism.auth
			return l.Auth.Start(server)
		}
	}
	return "", nil, errNoLogin
}

// Next implements smtp.Auth.
func (l *login) Next(challenge []byte, more bool) ([]byte, error) {
	if l.challenges++; l.challenges > maxChallenges {
		return nil, errChallenges
	}
	if more && iterations(challenge) > maxIterations {
		return nil, errIterations
	}
	return l.Auth.Next(challenge, more)
}

// iterations returns the count in a SCRAM challenge (RFC 5802, 5.1), at most one above the bound; 0 for any other
// challenge.
func iterations(challenge []byte) int {
	if !bytes.HasPrefix(challenge, []byte("r=")) {
		return 0
	}
	for field := range bytes.SplitSeq(challenge, []byte(",")) {
		if count, ok := bytes.CutPrefix(field, []byte("i=")); ok {
			n, err := strconv.Atoi(string(count))
			if err != nil || n < 1 || n > maxIterations {
				return maxIterations + 1
			}
			return n
		}
	}
	return 0
}
