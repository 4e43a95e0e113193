package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/secret"
)

const hidden = "hunter2"

type listeners struct {
	HTTP string `env:"HTTP_LISTEN" envDefault:":8101" doc:"address of the HTTP listener"`
	GRPC string `env:"GRPC_LISTEN" envDefault:":9101" doc:"address of the gRPC listener"`
}

type service struct {
	listeners

	Database  secret.File      `env:"DATABASE_URL_FILE,required" doc:"file with the database's URL"`
	LogLevel  slog.Level       `env:"LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error"`
	HTTPSOnly bool             `env:"REQUIRE_HTTPS" envDefault:"true" doc:"refuse http:// endpoints"`
	Attempts  int              `env:"MAX_ATTEMPTS" envDefault:"12" doc:"deliveries are given up after | that many"`
	Schedule  config.Durations `env:"RETRY_SCHEDULE" envDefault:"5s,30s" doc:"waits between attempts"`
	Allow     config.Targets   `env:"ALLOW_TARGETS" doc:"targets that may be private"`
	Upstream  url.URL          `env:"UPSTREAM_URL" doc:"where calls go"`
	Fallback  *url.URL         `env:"FALLBACK_URL" doc:"where they go next"`
	Tags      []string         `env:"TAGS" doc:"free words"`
	Drain     struct {
		Delay time.Duration `env:"DELAY" envDefault:"5s" doc:"wait before the drain"`
		Grace time.Duration `env:"GRACE" envDefault:"25s" doc:"time for the drain"`
	} `envPrefix:"DRAIN_"`
	Computed string `env:"-"`
	Untagged string
	_        struct {
		Text string `env:"UNREACHABLE"`
	}
}

func (s *service) Validate() error {
	if s.Drain.Grace < s.Drain.Delay {
		return errors.New("WEBHOOK_EGRESS_DRAIN_GRACE: must not be less than WEBHOOK_EGRESS_DRAIN_DELAY")
	}
	return nil
}

func load(environ ...string) (*service, error) {
	var s service
	err := config.Load("WEBHOOK_EGRESS", &s, environ)
	return &s, err
}

func TestLoadDefaults(t *testing.T) {
	got, err := load("WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_TAGS=", "WEBHOOKS=1", "PATH=/bin")
	if err != nil {
		t.Fatal(err)
	}
	want := &service{
		listeners: listeners{HTTP: ":8101", GRPC: ":9101"},
		Database:  "/run/db", HTTPSOnly: true, Attempts: 12,
		Schedule: config.Durations{5 * time.Second, 30 * time.Second},
	}
	want.Drain.Delay, want.Drain.Grace = 5*time.Second, 25*time.Second
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(service{}, listeners{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadValues(t *testing.T) {
	got, err := load(
		"WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_HTTP_LISTEN=127.0.0.1:1",
		"WEBHOOK_EGRESS_LOG_LEVEL=debug", "WEBHOOK_EGRESS_REQUIRE_HTTPS=false", "WEBHOOK_EGRESS_MAX_ATTEMPTS=3",
		"WEBHOOK_EGRESS_RETRY_SCHEDULE=1s, 1m30s", "WEBHOOK_EGRESS_ALLOW_TARGETS=Sink:9000",
		"WEBHOOK_EGRESS_UPSTREAM_URL=http://gateway:8101/a=b", "WEBHOOK_EGRESS_FALLBACK_URL=http://b:1", "WEBHOOK_EGRESS_TAGS=a,b",
		"WEBHOOK_EGRESS_DRAIN_DELAY=0s",
	)
	if err != nil {
		t.Fatal(err)
	}
	want := &service{
		listeners: listeners{HTTP: "127.0.0.1:1", GRPC: ":9101"},
		Database:  "/run/db", LogLevel: slog.LevelDebug, Attempts: 3,
		Schedule: config.Durations{time.Second, 90 * time.Second},
		Allow:    config.Targets{"sink:9000"},
		Upstream: url.URL{Scheme: "http", Host: "gateway:8101", Path: "/a=b"},
		Fallback: &url.URL{Scheme: "http", Host: "b:1"},
		Tags:     []string{"a", "b"},
	}
	want.Drain.Grace = 25 * time.Second
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(service{}, listeners{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadReportsEverythingAtOnce(t *testing.T) {
	_, err := load(
		"WEBHOOK_EGRESS_DATABASE_URL_FILE=", "WEBHOOK_EGRESS_MAX_ATTEMPTS=many", "WEBHOOK_EGRESS_DRAIN_DELAY=soon", "WEBHOOK_EGRESS_LOG_LEVEL=loud",
		"WEBHOOK_EGRESS_RETRY_SCHEDULE=1s,-1s", "WEBHOOK_EGRESS_ALLOW_TARGETS=sink",
		"WEBHOOK_EGRESS_UPSTREAM_URL=gateway:8101",
		"WEBHOOK_EGRESS_MAX_ATEMPTS=1", "WEBHOOK_EGRESS_DATABASE_URL=x", "WEBHOOK_EGRESS_COLOUR=red", "WEBHOOK_EGRESS_EMPTY=",
	)
	want := []string{
		`WEBHOOK_EGRESS_DATABASE_URL_FILE: required, but not set`,
		`WEBHOOK_EGRESS_LOG_LEVEL: want debug, info, warn or error`,
		`WEBHOOK_EGRESS_MAX_ATTEMPTS: want a whole number`,
		`WEBHOOK_EGRESS_RETRY_SCHEDULE: "-1s": want a duration of zero or more`,
		`WEBHOOK_EGRESS_ALLOW_TARGETS: "sink": want host:port`,
		`WEBHOOK_EGRESS_UPSTREAM_URL: want an absolute URL: scheme://host[:port][/path]`,
		`WEBHOOK_EGRESS_DRAIN_DELAY: want a duration such as 30s or 5m`,
		`WEBHOOK_EGRESS_COLOUR: unknown setting`,
		`WEBHOOK_EGRESS_DATABASE_URL: unknown setting; did you mean WEBHOOK_EGRESS_DATABASE_URL_FILE?`,
		`WEBHOOK_EGRESS_EMPTY: unknown setting`,
		`WEBHOOK_EGRESS_MAX_ATEMPTS: unknown setting; did you mean WEBHOOK_EGRESS_MAX_ATTEMPTS?`,
	}
	if diff := cmp.Diff(want, strings.Split(fmt.Sprint(err), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A value that can't be read may be a secret in the wrong variable.
func TestLoadRepeatsNoValue(t *testing.T) {
	for name, want := range map[string]string{
		"LOG_LEVEL": "want debug, info, warn or error", "REQUIRE_HTTPS": "want true or false", "MAX_ATTEMPTS": "want a whole number",
		"DRAIN_DELAY": "want a duration such as 30s or 5m", "UPSTREAM_URL": "want an absolute URL: scheme://host[:port][/path]",
	} {
		_, err := load("WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_"+name+"=hunter2")
		if got := fmt.Sprint(err); got != "WEBHOOK_EGRESS_"+name+": "+want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	_, err := load("WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_MAX_ATTEMPTS=99999999999999999999")
	if got, want := fmt.Sprint(err), "WEBHOOK_EGRESS_MAX_ATTEMPTS: want a whole number; this one is out of range"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLoadValidates(t *testing.T) {
	tests := map[string]struct {
		environ []string
		want    string
	}{
		"once all is read": {
			[]string{"WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_DRAIN_GRACE=1s", "WEBHOOK_EGRESS_X=1"},
			"WEBHOOK_EGRESS_DRAIN_GRACE: must not be less than WEBHOOK_EGRESS_DRAIN_DELAY\nWEBHOOK_EGRESS_X: unknown setting",
		},
		"beside what is not set": {
			[]string{"WEBHOOK_EGRESS_DRAIN_GRACE=1s"},
			"WEBHOOK_EGRESS_DATABASE_URL_FILE: required, but not set\nWEBHOOK_EGRESS_DRAIN_GRACE: must not be less than WEBHOOK_EGRESS_DRAIN_DELAY",
		},
		"beside what can't be read": {
			[]string{"WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_DRAIN_GRACE=1s", "WEBHOOK_EGRESS_MAX_ATTEMPTS=many"},
			`WEBHOOK_EGRESS_MAX_ATTEMPTS: want a whole number` + "\n" +
				"WEBHOOK_EGRESS_DRAIN_GRACE: must not be less than WEBHOOK_EGRESS_DRAIN_DELAY",
		},
		"not half-read values": {
			[]string{"WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_DRAIN_GRACE=1s", "WEBHOOK_EGRESS_DRAIN_DELAY=soon"},
			`WEBHOOK_EGRESS_DRAIN_DELAY: want a duration such as 30s or 5m`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(tt.environ...)
			if got := fmt.Sprint(err); got != tt.want {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
}

// A setting that can't be read has its default, and further checks don't complain of it.
func TestFurther(t *testing.T) {
	cfg := service{Attempts: 7}
	loaded := config.Load("WEBHOOK_EGRESS", &cfg, []string{"WEBHOOK_EGRESS_MAX_ATTEMPTS=many", "WEBHOOK_EGRESS_UPSTREAM_URL=gateway"})
	if cfg.Attempts != 12 || cfg.Upstream != (url.URL{}) {
		t.Errorf("attempts %d and URL %q, want the defaults", cfg.Attempts, cfg.Upstream.String())
	}
	found := errors.New("WEBHOOK_EGRESS_DATABASE_URL_FILE: required\nWEBHOOK_EGRESS_A, WEBHOOK_EGRESS_UPSTREAM_URL: want one\n" +
		"WEBHOOK_EGRESS_B: want WEBHOOK_EGRESS_MAX_ATTEMPTS\nWEBHOOK_EGRESS_MAX_ATTEMPTS_EACH: too many")
	if got := config.Further(loaded, found); got == nil || got.Error() != "WEBHOOK_EGRESS_MAX_ATTEMPTS_EACH: too many" {
		t.Errorf("beside unreadable settings: %v", got)
	}
	for name, err := range map[string]error{"nothing wrong": nil, "another error": errors.New("x")} {
		if got := config.Further(err, found); !errors.Is(got, found) {
			t.Errorf("%s: %v, want all", name, got)
		}
	}
	if got := config.Further(loaded, nil); got != nil {
		t.Errorf("nothing found: %v", got)
	}
}

// Variables that the platform injects must not keep a service from starting.
func TestLoadIgnoresInjectedVariables(t *testing.T) {
	_, err := load(
		"WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db",
		"WEBHOOK_EGRESS_SERVICE_HOST=10.0.0.7", "WEBHOOK_EGRESS_SERVICE_PORT=8102", "WEBHOOK_EGRESS_SERVICE_PORT_GRPC=9102",
		"WEBHOOK_EGRESS_PORT=tcp://10.0.0.7:8102", "WEBHOOK_EGRESS_PORT_8102_TCP=tcp://10.0.0.7:8102",
		"WEBHOOK_EGRESS_PORT_8102_TCP_PROTO=tcp", "WEBHOOK_EGRESS_PORT_8102_TCP_PORT=8102", "WEBHOOK_EGRESS_PORT_8102_TCP_ADDR=10.0.0.7",
		"WEBHOOK_EGRESS_METRICS_SERVICE_HOST=10.0.0.8", "WEBHOOK_EGRESS_SOCKET=/run/systemd/notify",
	)
	if err != nil {
		t.Error(err)
	}
	if _, err := load("WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_PORT=8102"); err == nil {
		t.Error("an operator's WEBHOOK_EGRESS_PORT passes for Kubernetes'")
	}
}

// A secret under a wrong name, or in place of its file's path, is refused without being shown.
func TestLoadErrorsHideSecrets(t *testing.T) {
	_, err := load(
		"WEBHOOK_EGRESS_DATABASE_URL=postgres://u:"+hidden+"@db/x",
		"WEBHOOK_EGRESS_DATABASE_URL_FILE=postgres://u:"+hidden+"@db/x",
		"WEBHOOK_EGRESS_UPSTREAM_URL=http://u:"+hidden+"/@db:x",
	)
	if n := strings.Count(fmt.Sprint(err), "\n"); n != 2 {
		t.Errorf("want 3 errors, got: %v", err)
	}
	if strings.Contains(fmt.Sprint(err), hidden) {
		t.Errorf("the error shows a secret: %v", err)
	}
}

func TestPrint(t *testing.T) {
	s, err := load(
		"WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db", "WEBHOOK_EGRESS_ALLOW_TARGETS=sink:9000,[::1]:25",
		"WEBHOOK_EGRESS_UPSTREAM_URL=http://u:"+hidden+"@gateway:8101", "WEBHOOK_EGRESS_FALLBACK_URL=http://"+hidden+"@b:1",
		"WEBHOOK_EGRESS_TAGS=a,amqp://u:"+hidden+"/,@@host,c",
	)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := config.Print(&b, "WEBHOOK_EGRESS", s); err != nil {
		t.Fatal(err)
	}
	want := `WEBHOOK_EGRESS_HTTP_LISTEN=:8101
WEBHOOK_EGRESS_GRPC_LISTEN=:9101
WEBHOOK_EGRESS_DATABASE_URL_FILE=/run/db
WEBHOOK_EGRESS_LOG_LEVEL=INFO
WEBHOOK_EGRESS_REQUIRE_HTTPS=true
WEBHOOK_EGRESS_MAX_ATTEMPTS=12
WEBHOOK_EGRESS_RETRY_SCHEDULE=5s,30s
WEBHOOK_EGRESS_ALLOW_TARGETS=sink:9000,[::1]:25
WEBHOOK_EGRESS_UPSTREAM_URL=http://[redacted]@gateway:8101
WEBHOOK_EGRESS_FALLBACK_URL=http://[redacted]@b:1
WEBHOOK_EGRESS_TAGS=a,amqp://[redacted]@host,c
WEBHOOK_EGRESS_DRAIN_DELAY=5s
WEBHOOK_EGRESS_DRAIN_GRACE=25s
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A secret.Value is not a supported setting, but is not printed if it is used as one.
func TestPrintRedactsValues(t *testing.T) {
	cfg := struct {
		Token secret.Value    `env:"TOKEN"`
		Old   []secret.Value  `env:"OLD"`
		None  *secret.Value   `env:"NONE"`
		Level slog.Level      `env:"LEVEL"`
		Sizes []time.Duration `env:"SIZES"`
	}{Token: secret.New(hidden), Old: []secret.Value{secret.New(hidden)}, Sizes: []time.Duration{time.Second}}
	var b strings.Builder
	if err := config.Print(&b, "EDGE", cfg); err != nil {
		t.Fatal(err)
	}
	want := "EDGE_TOKEN=[redacted]\nEDGE_OLD=[redacted]\nEDGE_NONE=\nEDGE_LEVEL=INFO\nEDGE_SIZES=1s\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	err := config.Load("EDGE", &cfg, []string{"EDGE_TOKEN=" + hidden})
	if err == nil || strings.Contains(err.Error(), hidden) || !strings.HasPrefix(err.Error(), "EDGE_TOKEN: ") {
		t.Errorf("a secret in a variable: %v", err)
	}
}

func TestTable(t *testing.T) {
	want := "| Setting | Default | Meaning |\n" +
		"| --- | --- | --- |\n" +
		"| `WEBHOOK_EGRESS_HTTP_LISTEN` | `:8101` | address of the HTTP listener |\n" +
		"| `WEBHOOK_EGRESS_GRPC_LISTEN` | `:9101` | address of the gRPC listener |\n" +
		"| `WEBHOOK_EGRESS_DATABASE_URL_FILE` | required | file with the database's URL |\n" +
		"| `WEBHOOK_EGRESS_LOG_LEVEL` | `info` | debug, info, warn or error |\n" +
		"| `WEBHOOK_EGRESS_REQUIRE_HTTPS` | `true` | refuse http:// endpoints |\n" +
		"| `WEBHOOK_EGRESS_MAX_ATTEMPTS` | `12` | deliveries are given up after \\| that many |\n" +
		"| `WEBHOOK_EGRESS_RETRY_SCHEDULE` | `5s,30s` | waits between attempts |\n" +
		"| `WEBHOOK_EGRESS_ALLOW_TARGETS` |  | targets that may be private |\n" +
		"| `WEBHOOK_EGRESS_UPSTREAM_URL` |  | where calls go |\n" +
		"| `WEBHOOK_EGRESS_FALLBACK_URL` |  | where they go next |\n" +
		"| `WEBHOOK_EGRESS_TAGS` |  | free words |\n" +
		"| `WEBHOOK_EGRESS_DRAIN_DELAY` | `5s` | wait before the drain |\n" +
		"| `WEBHOOK_EGRESS_DRAIN_GRACE` | `25s` | time for the drain |\n"
	for name, cfg := range map[string]any{"a struct": service{}, "a pointer": &service{}} {
		if diff := cmp.Diff(want, config.Table("WEBHOOK_EGRESS", cfg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
