package stack

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// vault is the folder of the secrets that the stack creates once and keeps.
type vault struct{ dir string }

func openVault(dir string) (vault, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return vault{}, err
	}
	return vault{dir}, os.Chmod(dir, 0o700) //nolint:gosec // the owner enters it
}

func (v vault) path(name string) string { return filepath.Join(v.dir, name) }

// once returns a secret, and creates it on the first call.
func (v vault) once(name string, fresh func() string) (string, error) {
	text, err := os.ReadFile(v.path(name))
	switch {
	case err == nil && strings.TrimSpace(string(text)) != "":
		return strings.TrimSpace(string(text)), nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("read secret: %w", err)
	}
	secret := fresh()
	return secret, v.write(name, secret)
}

// write replaces a secret atomically: a reader gets the old or the new one.
func (v vault) write(name, secret string) error {
	path := v.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(secret+"\n"), 0o600); err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	return nil
}

// secretsFolder is the vault's folder in the state folder.
const secretsFolder = "secrets"

// Names of the secrets' files.
const (
	serviceToken   = "service-token"
	serviceTokens  = "service-tokens" // a folder
	operatorToken  = "operator-token"
	supportToken   = "support-token"
	edgeToken      = "edge-token"
	tokensFile     = "tokens.yaml"
	edgePepper     = "edge-key-pepper"
	controlToken   = "control-token"         // of the edge's control at webhook-egress and notify
	slackSigning   = "slack-signing-secret"  // of the app whose buttons the edge's control takes
	exportsFile    = "exports.yaml"          // of the edge's control
	policyFile     = "gateway-policy.yaml"   // the shipped one with the stack's rules of tools
	billingKey     = "billing-key"           // the fake billing systems take any
	webhookFolder  = "webhook-organizations" // one file per organization
	webhookDefault = "webhook-default"
	webhookKey     = "webhook-encryption-key"
	webhookSigning = "webhook-signing-keys"
	gatewayKey     = "gateway-fingerprint-key"
	gatewaySealing = "gateway-sealing"       // keys that organizations' credentials are sealed to
	gatewayByok    = "gateway-organizations" // one folder per organization
	gatewayTraces  = "gateway-trace-keys"    // seal captured requests and answers
	gatewayCache   = "gateway-cache-key"     // seals cached answers
	gatewayToken   = "gateway-token"         // ours at webhook egress
	notifyKey      = "notify-encryption-key"
	notifyVAPID    = "notify-vapid-keys"
	notifyToken    = "notify-token"         // ours at webhook egress
	notifySlack    = "notify-slack"         // one file per organization
	notifySlackApp = "notify-slack-apps"    // one file per organization
	notifyMail     = "notify-mail-password" // the fake mail server takes any
	fakesCA        = "fakes-ca.pem"
	fakesKey       = "fakes-key.pem" // with its certificate, which a restart must not change
	redisURL       = "redis-url"
	databaseFolder = "database" // a password and a URL per service
)

func databasePassword(s Service) string { return filepath.Join(databaseFolder, s.schema()+".password") }
func databaseURL(s Service) string      { return filepath.Join(databaseFolder, s.schema()+".url") }

// Secrets holds the secrets that a client of the stack needs. They are for tests and for the settings file, not for
// printing.
type Secrets struct {
	Service  string // a service token of role service
	Operator string // one of role operator
	Support  string // one of role support
	Webhook  string // signs the deliveries of the demo organization and of those without a secret of their own
	// SlackSigning signs the clicks of people in Slack, whose app is SlackApp.
	SlackSigning string
}

// SlackApp is the id of the app of Slack whose clicks the stack takes.
const SlackApp = "A0SWITCHYARD"

// makeSecrets creates the missing secrets and returns those that clients need.
func makeSecrets(v vault) (Secrets, error) {
	var s Secrets
	var control, edge, gateway, notify string
	for _, secret := range []struct {
		name  string
		fresh func() string
		into  *string
	}{
		{serviceToken, newToken, &s.Service},
		{operatorToken, newToken, &s.Operator},
		{supportToken, newToken, &s.Support},
		{edgeToken, newToken, &edge},
		{edgePepper, newToken, new(string)},
		{controlToken, newToken, &control},
		{slackSigning, newToken, &s.SlackSigning},
		{billingKey, newToken, new(string)},
		{webhookDefault, newSigningSecret, &s.Webhook},
		{webhookKey, newKey, new(string)},
		{webhookSigning, newEd25519Key, new(string)},
		{gatewayKey, newKey, new(string)},
		{gatewayTraces, newToken, new(string)},
		{gatewayToken, newToken, &gateway},
		{filepath.Join(gatewaySealing, "first.key"), newSealingKey, new(string)},
		{notifyKey, newKey, new(string)},
		{notifyVAPID, newVAPIDKey, new(string)},
		{notifyToken, newToken, &notify},
		{notifyMail, newToken, new(string)},
	} {
		text, err := v.once(secret.name, secret.fresh)
		if err != nil {
			return Secrets{}, err
		}
		*secret.into = text
	}
	for _, folder := range []string{gatewayByok, notifySlack, notifySlackApp} {
		if err := os.MkdirAll(v.path(folder), 0o700); err != nil {
			return Secrets{}, fmt.Errorf("make folder: %w", err)
		}
	}
	if err := v.write(filepath.Join(notifySlackApp, Organization), "xoxb-demo"); err != nil { // The fake Slack takes any.
		return Secrets{}, err
	}
	if err := v.write(filepath.Join(webhookFolder, Organization), s.Webhook); err != nil {
		return Secrets{}, err
	}
	return s, v.write(tokensFile, tokensYAML([]token{
		{"local-service", "service", s.Service},
		{"local-operator", "operator", s.Operator},
		{"local-support", "support", s.Support},
		{"control", "operator", control},
		{"edge", "service", edge},
		{"gateway", "service", gateway},
		{"notify", "service", notify},
	}))
}

// newToken returns a token of 260 random bits in letters and digits.
func newToken() string { return rand.Text() + rand.Text() }

// newSigningSecret returns a secret in the form of Standard Webhooks, so that deliveries have its signature too.
func newSigningSecret() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key[:])
}

// newEd25519Key returns the seed of an Ed25519 key in the form of Standard Webhooks.
func newEd25519Key() string {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	return "whsk_" + base64.StdEncoding.EncodeToString(seed[:])
}

type token struct{ name, role, text string }

// newKey returns an AES-256 key.
func newKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return hex.EncodeToString(key[:])
}

// newVAPIDKey returns a key as `notify vapid generate` makes it.
func newVAPIDKey() string {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // It never fails.
	}
	return base64.RawURLEncoding.EncodeToString(private.Bytes())
}

// newSealingKey returns a key as `gateway byok keygen` makes it.
func newSealingKey() string {
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		panic(err) // It never fails.
	}
	key, err := private.Bytes()
	if err != nil {
		panic(err) // Nor does this.
	}
	return "switchyard-sealing-key-v1 x25519 " + time.Now().UTC().Format(time.RFC3339) + " " + base64.StdEncoding.EncodeToString(key)
}

// tokensYAML returns the services' file of the tokens, which holds only their SHA-256.
func tokensYAML(tokens []token) string {
	var text strings.Builder
	text.WriteString("tokens:\n")
	for _, t := range tokens {
		sum := sha256.Sum256([]byte(t.text))
		fmt.Fprintf(&text, "  - {name: %s, role: %s, sha256: %s}\n", t.name, t.role, hex.EncodeToString(sum[:]))
	}
	return strings.TrimSuffix(text.String(), "\n")
}
