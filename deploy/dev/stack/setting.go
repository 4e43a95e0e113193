package stack

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// memoryLimit is what a service finds by itself in a container of 512 MiB, the limit that its README recommends.
const memoryLimit = "GOMEMLIMIT=435MiB"

// environ is a process environment of "NAME=value" entries; later ones win.
type environ []string

func (e environ) lookup(name string) string {
	for _, entry := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// notSettings lists variables that begin with a service's prefix but are none of its settings: those that the stack
// writes to the settings file, which people source, and a variable of systemd.
var notSettings = []string{
	"EDGE_URL", "EDGE_METRICS_URL", "GATEWAY_URL", "WEBHOOK_EGRESS_URL", "NOTIFY_URL",
	"GATEWAY_GRPC", "WEBHOOK_EGRESS_GRPC", "NOTIFY_GRPC",
	"NOTIFY_SOCKET",
}

// shared returns the part of the user's environment that every program gets: nothing under a service's prefix and
// nothing that is meant for the stack, such as the administrator's database URL.
func (e environ) shared() environ {
	private := []string{"SWITCHYARD_", "FAKES_"}
	for _, s := range Services {
		private = append(private, s.prefix())
	}
	return e.keep(func(name string) bool {
		return !slices.ContainsFunc(private, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// of returns what the user set for a service.
func (e environ) of(s Service) environ {
	return e.keep(func(name string) bool {
		return strings.HasPrefix(name, s.prefix()) && !slices.Contains(notSettings, name)
	})
}

func (e environ) keep(wanted func(name string) bool) environ {
	return slices.DeleteFunc(slices.Clone(e), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !wanted(name)
	})
}

// settings returns the environment of one replica: what it needs in this stack, then what the user set, then what the
// caller of Start set. Where one of them sets allowed targets, those of the stack are kept.
func (s *Stack) settings(service Service, name string, user environ) []string {
	own := environ{
		"DATABASE_URL_FILE=" + s.vault.path(databaseURL(service)),
		"REDIS_URL_FILE=" + s.vault.path(redisURL),
		"SERVICE_TOKENS_FILE=" + s.vault.path(tokensFile),
		"DRAIN_DELAY=0s",
	}
	own = append(append(own, s.particular(service)...), s.secure(service)...)
	if targets := s.targets(service, user); targets != "" {
		own = append(own, "ALLOW_TARGETS="+targets)
	}
	merged := service.prefix() + "ALLOW_TARGETS"
	unmerged := func(name string) bool { return name != merged }
	env := append(environ{memoryLimit}, user.shared()...)
	for _, setting := range own {
		env = append(env, service.prefix()+setting)
	}
	env = append(env, user.of(service).keep(unmerged)...)
	for _, l := range listeners(s.options.Replicas, nil) {
		if l.member == name {
			env = append(env, l.setting+"="+s.addresses[name][l.face])
		}
	}
	env = append(env, environ(s.options.Env[service.owner()]).keep(unmerged)...)
	if service != service.owner() {
		env = append(env, environ(s.options.Env[service]).keep(unmerged)...)
	}
	return env
}

// particular returns the settings that only one service has, without its prefix.
func (s *Stack) particular(service Service) []string {
	switch service {
	case WebhookEgress:
		return []string{
			"ORG_SECRETS_DIR=" + s.vault.path(webhookFolder),
			"DEFAULT_SECRET_FILE=" + s.vault.path(webhookDefault),
			"ENCRYPTION_KEY_FILE=" + s.vault.path(webhookKey),
			"SIGNING_KEYS_FILE=" + s.vault.path(webhookSigning),
			"REQUIRE_HTTPS=false",
		}
	case Control:
		return s.control()
	case Edge:
		return []string{
			"CONTROL_URL=" + s.URL(string(Control)), // "" is none
			"GATEWAY_URL=" + s.URL(string(Gateway)),
			"WEBHOOK_EGRESS_URL=" + s.URL(string(WebhookEgress)),
			"NOTIFY_URL=" + s.URL(string(Notify)),
			"SERVICE_TOKEN_FILE=" + s.vault.path(edgeToken),
			"KEY_PEPPER_FILE=" + s.vault.path(edgePepper),
		}
	case Gateway:
		own := []string{
			"FINGERPRINT_KEY_FILE=" + s.vault.path(gatewayKey),
			"SEALING_KEYS_DIR=" + s.vault.path(gatewaySealing),
			"BYOK_SECRETS_DIR=" + s.vault.path(gatewayByok),
			"TRACE_KEYS_FILE=" + s.vault.path(gatewayTraces),
			"SPOOL_DIR=" + filepath.Join(s.options.State, "spool", string(Gateway)),
			"EVENTS_EGRESS_ADDRESS=" + s.GRPC(string(WebhookEgress)),
			"EVENTS_EGRESS_TOKEN_FILE=" + s.vault.path(gatewayToken),
		}
		if s.options.ToolRules != "" {
			own = append(own, "POLICY_FILE="+s.vault.path(policyFile))
		}
		return own
	case Notify:
		return s.notify()
	}
	return nil
}

// control returns the settings of the edge's control, with exports of usage to the fake billing systems if they run.
func (s *Stack) control() []string {
	own := []string{
		"WEBHOOK_EGRESS_URL=" + s.URL(string(WebhookEgress)),
		"NOTIFY_URL=" + s.URL(string(Notify)),
		"GATEWAY_URL=" + s.URL(string(Gateway)),
		"SERVICE_TOKEN_FILE=" + s.vault.path(edgeToken),
		"PORTAL_URL=" + s.URL(string(Edge)),
		"CONSOLE_URL=" + s.URL(string(Control)),
		"PUBLIC_URL=" + s.URL(string(Edge)),
		"SLACK_APP_ID=" + SlackApp,
		"SLACK_SIGNING_SECRETS_FILE=" + s.vault.path(slackSigning),
		"CONTROL_TOKEN_FILE=" + s.vault.path(controlToken),
		"KEY_PEPPER_FILE=" + s.vault.path(edgePepper),
	}
	if s.FakeURL(FakeBilling) != "" {
		own = append(own, "EXPORTS_FILE="+s.vault.path(exportsFile))
	}
	return own
}

// notify returns the settings that point notify at the running fakes: Slack, a mail server over STARTTLS, and a push
// service for the demo page.
func (s *Stack) notify() []string {
	own := []string{
		"ENCRYPTION_KEY_FILE=" + s.vault.path(notifyKey),
		"WEB_PUSH_ENABLED=" + strconv.FormatBool(s.options.WebPush),
		"WEB_PUSH_VAPID_KEYS_FILE=" + s.vault.path(notifyVAPID),
		"WEB_PUSH_VAPID_SUBJECT=mailto:ops@switchyard.example",
		"DEMO_TOKEN_FILE=" + s.vault.path(serviceToken),
		"WEBHOOK_EGRESS_ADDRESS=" + s.GRPC(string(WebhookEgress)),
		"WEBHOOK_EGRESS_TOKEN_FILE=" + s.vault.path(notifyToken),
		"WEBHOOK_REQUIRE_HTTPS=false",
		"SLACK_WEBHOOKS_DIR=" + s.vault.path(notifySlack),
		"SLACK_TOKENS_DIR=" + s.vault.path(notifySlackApp),
	}
	if slack := s.FakeURL(FakeSlack); slack != "" {
		own = append(own, "SLACK_ORIGINS="+slack, "SLACK_API_URL="+slack+"/api")
	}
	if push := s.FakeAddress(FakePush); push != "" {
		own = append(own, "DEMO_PUSH_ADDRESS="+push)
	}
	if mail := s.FakeAddress(FakeSMTP); mail != "" {
		own = append(own,
			"SMTP_ADDRESS="+mail, "SMTP_USERNAME=mailer", "SMTP_PASSWORD_FILE="+s.vault.path(notifyMail),
			"EMAIL_FROM=Switchyard <no-reply@switchyard.example>", "CA_FILE="+s.vault.path(fakesCA))
	}
	return own
}

// targets returns the allowed targets of a service: the fakes that it calls, which listen on loopback, and those that
// the user and the caller of Start set.
func (s *Stack) targets(service Service, user environ) string {
	var called []Fake
	switch service {
	case Gateway:
		called = []Fake{FakeProvider, FakeTools, FakeTarpit}
	case WebhookEgress:
		called = []Fake{FakeWebhook, FakeTarpit, FakeHostileWebhook}
	case Notify:
		called = []Fake{FakeWebhook, FakeSlack, FakePush, FakeSMTP, FakeHostileWebhook, FakeHostilePush}
	case Edge, Control:
		return ""
	}
	var targets []string
	for _, fake := range called {
		if address := s.addresses.dial(fakeMember(fake), faceHTTP); address != "" {
			targets = append(targets, address)
		}
	}
	for _, set := range []environ{user, s.options.Env[service]} {
		if more := set.lookup(service.prefix() + "ALLOW_TARGETS"); more != "" {
			targets = append(targets, more)
		}
	}
	return strings.Join(targets, ",")
}
