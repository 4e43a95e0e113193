package demo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Env holds how a running stack is reached. It is the settings file that `make run` writes for people, tests and
// shells.
type Env struct {
	EdgeURL          string
	EdgeMetricsURL   string
	GatewayURL       string
	WebhookEgressURL string
	NotifyURL        string
	ToolServerURL    string // of the fake server of the Model Context Protocol
	ReceiverURL      string // of the fake webhook receiver

	GatewayGRPC       string // host:port
	WebhookEgressGRPC string
	NotifyGRPC        string

	AIKey            string // product keys of the edge
	WebhooksKey      string
	NotificationsKey string

	ServiceToken  string // tokens of the capability face
	OperatorToken string
	SupportToken  string

	OrganizationID string
	WebhookSecret  string // signs the organization's deliveries

	BYOKSecretsDir string // folder of organizations' own provider keys
}

type variable struct {
	name  string
	value *string
}

// variables returns the variables of the file, in its order.
func (e *Env) variables() []variable {
	return []variable{
		{"EDGE_URL", &e.EdgeURL},
		{"EDGE_METRICS_URL", &e.EdgeMetricsURL},
		{"GATEWAY_URL", &e.GatewayURL},
		{"WEBHOOK_EGRESS_URL", &e.WebhookEgressURL},
		{"NOTIFY_URL", &e.NotifyURL},
		{"TOOL_SERVER_URL", &e.ToolServerURL},
		{"RECEIVER_URL", &e.ReceiverURL},
		{"GATEWAY_GRPC", &e.GatewayGRPC},
		{"WEBHOOK_EGRESS_GRPC", &e.WebhookEgressGRPC},
		{"NOTIFY_GRPC", &e.NotifyGRPC},
		{"AI_KEY", &e.AIKey},
		{"WEBHOOKS_KEY", &e.WebhooksKey},
		{"NOTIFICATIONS_KEY", &e.NotificationsKey},
		{"SERVICE_TOKEN", &e.ServiceToken},
		{"OPERATOR_TOKEN", &e.OperatorToken},
		{"SUPPORT_TOKEN", &e.SupportToken},
		{"ORGANIZATION_ID", &e.OrganizationID},
		{"WEBHOOK_SECRET", &e.WebhookSecret},
		{"BYOK_SECRETS_DIR", &e.BYOKSecretsDir},
	}
}

// ReadEnv reads the settings file. Each of its variables must be present.
func ReadEnv(path string) (Env, error) {
	file, err := os.Open(path)
	if err != nil {
		return Env{}, err
	}
	defer func() { _ = file.Close() }()
	e, err := parseEnv(file)
	if err != nil {
		return Env{}, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

func parseEnv(text io.Reader) (Env, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return Env{}, fmt.Errorf("not NAME=value: a line of %d characters", len(line)) // the line may be a secret
		}
		values[name] = unquote(value)
	}
	if err := lines.Err(); err != nil {
		return Env{}, err
	}
	var e Env
	for _, v := range e.variables() {
		value, ok := values[v.name]
		if !ok {
			return Env{}, fmt.Errorf("%s is missing", v.name)
		}
		*v.value = value
	}
	return e, nil
}

// Write replaces the settings file atomically; only its owner can read it.
func (e *Env) Write(path string) error {
	text, err := e.render()
	if err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func (e *Env) render() (string, error) {
	var text strings.Builder
	for _, v := range e.variables() {
		if strings.ContainsAny(*v.value, "\r\n\x00") {
			return "", fmt.Errorf("%s: %w", v.name, errNotOneLine)
		}
		fmt.Fprintf(&text, "%s=%s\n", v.name, quote(*v.value))
	}
	return text.String(), nil
}

var errNotOneLine = errors.New("the value is more than one line")

// plain reports whether a shell takes a value as it is, without quotes.
func plain(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !slices.Contains([]rune("_-./:=+@%[]"), r)
	})
}

// EnvFile returns the path of the settings file of a stack.
func EnvFile(state string) string { return filepath.Join(state, "demo.env") }
