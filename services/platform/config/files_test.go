package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/secret"
)

// named are settings that name files and folders.
type named struct {
	Key   secret.File `env:"KEY_FILE,required" doc:"key"`
	Rules string      `env:"RULES_FILE" required:"by serve" doc:"rules"`
	Dir   string      `env:"KEYS_DIR" doc:"keys"`
	Other string      `env:"OTHER" doc:"no file"`
	TLS   struct {
		CA string `env:"CA_FILE" doc:"CAs"`
	} `envPrefix:"TLS_"`
}

func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	text, empty, missing := filepath.Join(dir, "text"), filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	for path, content := range map[string]string{text: "x", empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := func() error { return errors.New("no certificate") }
	for name, tt := range map[string]struct {
		cfg    named
		checks map[string]func() error
		want   []string // beginnings of the problems
	}{
		"nothing":            {named{Other: missing}, nil, nil},
		"all":                {named{Key: secret.File(text), Rules: empty, Dir: dir}, nil, nil},
		"an empty directory": {named{Dir: t.TempDir()}, nil, nil},
		"missing": {
			named{Key: secret.File(missing), Rules: missing, Dir: missing},
			nil,
			[]string{"SHOP_KEY_FILE: secret: open " + missing, "SHOP_RULES_FILE: stat " + missing, "SHOP_KEYS_DIR: stat " + missing},
		},
		"of another kind": {
			named{Key: secret.File(empty), Rules: dir, Dir: text},
			nil,
			[]string{"SHOP_KEY_FILE: ", "SHOP_RULES_FILE: " + dir + ": want a file", "SHOP_KEYS_DIR: " + text + ": want a folder"},
		},
		"a pipe": {
			named{Rules: pipe, Dir: pipe},
			nil,
			[]string{"SHOP_RULES_FILE: " + pipe + ": want a file", "SHOP_KEYS_DIR: " + pipe + ": want a folder"},
		},
		"its own check":         {named{Rules: missing}, map[string]func() error{"RULES_FILE": func() error { return nil }, "TLS_CA_FILE": wrong}, nil},
		"its own check fails":   {func() (c named) { c.TLS.CA = text; return c }(), map[string]func() error{"TLS_CA_FILE": wrong}, []string{"SHOP_TLS_CA_FILE: no certificate"}},
		"which names a setting": {named{Rules: text}, map[string]func() error{"RULES_FILE": func() error { return errors.New("SHOP_RULES_FILE: bad") }}, []string{"SHOP_RULES_FILE: bad"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := config.CheckFiles("SHOP", tt.cfg, tt.checks)
			wantLines(t, err, tt.want)
		})
	}
}

func TestRequired(t *testing.T) {
	if diff := cmp.Diff([]string{"SHOP_KEY_FILE", "SHOP_RULES_FILE (by serve)"}, config.Required("SHOP", named{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if table := config.Table("SHOP", named{}); !strings.Contains(table, "| `SHOP_RULES_FILE` | required by serve | rules |") {
		t.Errorf("the table doesn't say when a setting is required:\n%s", table)
	}
}
