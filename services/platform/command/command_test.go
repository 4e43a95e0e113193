package command_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/command/commandtest"
	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/secret"
)

// settings are those of a service of the tests.
type settings struct {
	Name   string      `env:"NAME,required" doc:"name"`
	Listen string      `env:"LISTEN" envDefault:":1" doc:"address"`
	Key    secret.File `env:"KEY_FILE" required:"by sell" doc:"key"`
}

// shop returns the command line of a service of the tests.
func shop(environ ...string) *cobra.Command {
	line := command.Service[settings]{
		Name: "shop", Short: "A shop.", Prefix: "SHOP",
		Load: func() (cfg settings, err error) {
			err = config.Load("SHOP", &cfg, environ)
			return cfg, err
		},
		Roles: []command.Role[settings]{
			{Name: "serve", Short: "serve", Serve: says("serves"), Face: face},
			{Name: "sell", Short: "sell", Serve: says("sells"), Face: face, Check: func(cfg settings) error {
				if cfg.Key == "" {
					return errors.New("SHOP_KEY_FILE: required, but not set")
				}
				return nil
			}},
		},
		Migrate: func(_ context.Context, cfg settings, w io.Writer) error {
			_, err := fmt.Fprintln(w, "migrated", cfg.Name)
			return err
		},
		Files: func(cfg settings) error { return config.CheckFiles("SHOP", cfg, nil) },
	}
	count := &cobra.Command{Use: "count FILE", Short: "count", Args: command.Args(1, 1), ValidArgsFunction: command.Files}
	fast := count.Flags().Bool("quick-count", false, "count quickly")
	status := count.Flags().IntP("status", "s", 0, "exit code")
	count.Flags().String("list", "", "`FILE` with a list")
	count.Flags().String("unit", "", "`NAME` of the unit")
	count.RunE = func(c *cobra.Command, args []string) error {
		_, err := fmt.Fprintln(c.OutOrStdout(), args[0], *fast)
		if *status > 0 {
			err = fmt.Errorf("counting: %w", command.WithCode(*status, errWrong))
		}
		return err
	}
	return line.Root(command.Group("stock", "manage stock", count))
}

var errWrong = errors.New("wrong")

func face(cfg settings) command.Face { return command.Face{Listen: cfg.Listen} }

// says returns a role that ends with what it does.
func says(what string) func(context.Context, settings) error {
	return func(_ context.Context, cfg settings) error { return errors.New(cfg.Name + " " + what) }
}

func TestRun(t *testing.T) {
	const name = "SHOP_NAME=ours"
	for _, tt := range []struct {
		args     string
		environ  []string
		code     int
		out, err string
	}{
		{"", []string{name}, 1, "", "shop: ours serves\n"},
		{"serve", []string{name}, 1, "", "shop: ours serves\n"},
		{"sell", []string{name}, 1, "", "shop: ours sells\n"},
		{"migrate", []string{name}, 0, "migrated ours\n", ""},
		{"migrate", nil, 1, "", "shop: settings: (`shop config` prints and checks them)\nSHOP_NAME: required, but not set\n"},
		{"migrate now", nil, 2, "", "shop: migrate: takes no arguments; see shop migrate --help\n"},
		{"config", []string{name}, 0, "SHOP_NAME=ours\nSHOP_LISTEN=:1\nSHOP_KEY_FILE=\n", ""},
		{"config serve", []string{name}, 0, "SHOP_NAME=ours\nSHOP_LISTEN=:1\nSHOP_KEY_FILE=\n", ""},
		{"config sell", []string{name}, 1, "SHOP_NAME=ours\nSHOP_LISTEN=:1\nSHOP_KEY_FILE=\n", "shop: settings:\nSHOP_KEY_FILE: required, but not set\n"},
		{
			"config sell",
			nil,
			1, "SHOP_NAME=\nSHOP_LISTEN=:1\nSHOP_KEY_FILE=\n",
			"shop: settings:\nSHOP_NAME: required, but not set\nSHOP_KEY_FILE: required, but not set\n",
		},
		{
			"config sell",
			[]string{name, "SHOP_KEY_FILE=postgres://u:hunter2@h/d"},
			1, "SHOP_NAME=ours\nSHOP_LISTEN=:1\nSHOP_KEY_FILE=\n",
			"shop: settings:\nSHOP_KEY_FILE: want the path of a file that holds the secret, not the secret\n",
		},
		{"config buy", nil, 2, "", "shop: config: want a role: serve, sell; see shop config --help\n"},
		{
			"config",
			[]string{"SHOP_KEY_FILE=/nonexistent"},
			1, "SHOP_NAME=\nSHOP_LISTEN=:1\nSHOP_KEY_FILE=/nonexistent\n",
			"shop: settings:\nSHOP_NAME: required, but not set\nSHOP_KEY_FILE: secret: open /nonexistent: no such file or directory\n",
		},
		{"config --skip-files", []string{name, "SHOP_KEY_FILE=/nonexistent"}, 0, "SHOP_NAME=ours\nSHOP_LISTEN=:1\nSHOP_KEY_FILE=/nonexistent\n", ""},
		{"stock", nil, 2, "", "shop: stock: want one of its commands: count; see shop stock --help\n"},
		{"stock cuont", nil, 2, "", "shop: stock: unknown command \"cuont\"; did you mean count? See shop stock --help\n"},
		{"stock count", nil, 2, "", "shop: stock count: want count FILE; see shop stock count --help\n"},
		{"stock count f", nil, 0, "f false\n", ""},
		{"stock count f --quick-count", nil, 0, "f true\n", ""},
		{"stock count -quick-count f", nil, 0, "f true\n", ""},
		{"stock count -quick-count=false f", nil, 0, "f false\n", ""},
		{"stock count -- -quick-count", nil, 0, "-quick-count false\n", ""},
		{"stock count -s 7 f", nil, 7, "f false\n", "shop: counting: wrong\n"},
		{"stock count --status=many f", nil, 2, "", "shop: stock count: invalid argument \"many\" for \"-s, --status\" flag: strconv.ParseInt: parsing \"many\": invalid syntax; see shop stock count --help\n"},
		{"stock count --quik-count f", nil, 2, "", "shop: stock count: unknown flag \"--quik-count\"; did you mean --quick-count? See shop stock count --help\n"},
		{"-x", nil, 2, "", "shop: unknown flag \"-x\"; see shop --help\n"},
		{"stock count -qx f", nil, 2, "", "shop: stock count: unknown flag \"-q\"; see shop stock count --help\n"},
		{"stock count --x f", nil, 2, "", "shop: stock count: unknown flag \"--x\"; see shop stock count --help\n"},
		{"help stock cuont", nil, 2, "", "shop: stock: unknown command \"cuont\"; did you mean count? See shop stock --help\n"},
		{"help serve now", nil, 2, "", "shop: serve: unknown command \"now\"; see shop serve --help\n"},
	} {
		got := commandtest.Run(shop(tt.environ...), "", strings.Fields(tt.args)...)
		if want := (commandtest.Result{Code: tt.code, Out: tt.out, Err: tt.err}); got != want {
			t.Errorf("shop %s: %+v, want %+v", tt.args, got, want)
		}
	}
}

// config checks what a start does, the variables of OpenTelemetry's SDK too.
func TestConfigOfTelemetry(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key hunter2")
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent")
	const (
		headers = "shop: settings:\nOTEL_EXPORTER_OTLP_HEADERS: want key=value,key=value with percent-encoded values\n"
		file    = "OTEL_EXPORTER_OTLP_CERTIFICATE: open /nonexistent: no such file or directory\n"
	)
	for args, want := range map[string]string{"config": headers + file, "config --skip-files": headers} {
		if got := commandtest.Run(shop("SHOP_NAME=ours"), "", strings.Fields(args)...); got.Code != 1 || got.Err != want {
			t.Errorf("shop %s: %+v, want %q", args, got, want)
		}
	}
}

func TestExitCode(t *testing.T) {
	for want, err := range map[int]error{0: nil, 1: errWrong, 7: fmt.Errorf("x: %w", command.WithCode(7, errWrong))} {
		if got := command.ExitCode(err); got != want {
			t.Errorf("ExitCode(%v) = %d, want %d", err, got, want)
		}
	}
	if !errors.Is(command.WithCode(3, errWrong), errWrong) {
		t.Error("an error with a code doesn't wrap its cause")
	}
}
