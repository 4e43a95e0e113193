package stack

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// roleSQL returns the statements that create a service's role and schema, or bring existing ones to the same state:
// the role logs in with the password of the verifier, owns the schema of its own name and has access to nothing else.
// Both arguments are the stack's own: a name of letters and a SCRAM verifier.
func roleSQL(role, verifier string) string {
	return strings.NewReplacer("{role}", role, "{verifier}", verifier).Replace(`
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '{role}') THEN
    CREATE ROLE {role};
  END IF;
END
$$;
ALTER ROLE {role} WITH LOGIN PASSWORD '{verifier}';
ALTER ROLE {role} SET search_path = {role};
GRANT {role} TO CURRENT_USER; -- an administrator who is no superuser may give schemas only to roles of his
CREATE SCHEMA IF NOT EXISTS {role} AUTHORIZATION {role};
`)
}

// provisionLock is the advisory lock that serializes stacks which share a server.
const provisionLock = 0x5377697463687964

// provision creates the roles and returns the URL of each, by role.
func provision(ctx context.Context, administrator string, passwords map[string]string) (map[string]string, error) {
	conn, err := pgx.Connect(ctx, administrator)
	if err != nil {
		return nil, fmt.Errorf("connect to make roles: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	urls := map[string]string{}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(provisionLock)); err != nil {
			return err
		}
		for role, password := range passwords {
			verifier, err := scramVerifier(password)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, roleSQL(role, verifier)); err != nil {
				return fmt.Errorf("role %s: %w", role, err)
			}
			if urls[role], err = urlFor(administrator, role, password); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make roles and schemas: %w", err)
	}
	return urls, nil
}

// urlFor returns the administrator's URL with another user.
func urlFor(administrator, role, password string) (string, error) {
	u, err := url.Parse(administrator)
	if err != nil || u.Host == "" {
		return "", errors.New("the administrator's address isn't a URL like postgres://user:password@host:port/database")
	}
	u.User = url.UserPassword(role, password)
	return u.String(), nil
}

// scramVerifier returns what Postgres stores of a password (RFC 5803), so that the password itself isn't sent and
// can't get into the server's log.
func scramVerifier(password string) (string, error) {
	const iterations = 4096
	var salt [16]byte
	_, _ = rand.Read(salt[:]) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt[:], iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive SCRAM key: %w", err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode(salt[:]),
		encode(stored[:]), encode(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
