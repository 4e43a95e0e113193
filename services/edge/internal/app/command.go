package app

import (
	"maps"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/internal/slack"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/config"
)

// Main runs the command that the arguments name and returns its exit code.
func Main(args []string) int { return command.Run(root(os.Environ()), args, command.Standard()) }

// root returns the command line, with the settings in environ.
func root(environ []string) *cobra.Command {
	line := command.Service[Config]{
		Name: serviceName, Short: "The public entry point for customers of Switchyard, and its administration.", Prefix: prefix,
		Load: func() (Config, error) { return Load(environ) },
		Roles: []command.Role[Config]{
			{
				Name: "serve", Short: "serve customers until the process is asked to stop, then drain", Serve: Serve,
				Check: func(cfg Config) error { return cfg.servable() },
				Face:  func(cfg Config) command.Face { return command.Face{Listen: cfg.Listen, CertFile: cfg.TLS.CertFile} },
			},
			{
				Name: controlName, Short: "serve operators until the process is asked to stop, then drain", Serve: Control,
				Check: func(cfg Config) error { return cfg.controllable() },
				Face: func(cfg Config) command.Face {
					return command.Face{Listen: cfg.ControlListen, CertFile: cfg.TLS.CertFile}
				},
			},
		},
		Migrate: Migrate, Files: checkFiles,
	}
	return line.Root(keysCommand(line), exportsCommand(line), docsCommand())
}

// checkFiles checks the files and folders that settings name as a start reads them.
func checkFiles(cfg Config) error {
	checks := map[string]func() error{
		"DATABASE_URL_FILE":          cfg.database().Check,
		"SERVICE_TOKENS_FILE":        func() error { return failure(cfg.access().Tokens()) },
		"KEY_PEPPER_FILE":            func() error { return failure(pepper(cfg)) },
		"SLACK_SIGNING_SECRETS_FILE": func() error { return failure(slack.NewVerifier(cfg.SlackSecrets)) },
		"EXPORTS_FILE":               func() error { return failure(readExports(cfg)) },
	}
	maps.Copy(checks, cfg.TLS.FileChecks("TLS_"))
	maps.Copy(checks, cfg.UpstreamTLS.FileChecks("UPSTREAM_TLS_"))
	maps.Copy(checks, cfg.redis().FileChecks())
	return config.CheckFiles(prefix, cfg, checks)
}

// failure returns the error of a loader.
func failure[T any](_ T, err error) error { return err }

// readExports reads the exports file.
func readExports(cfg Config) (export.Settings, error) {
	text, err := bounded.ReadFile(cfg.ExportsFile, maxExportsFile)
	if err != nil {
		return export.Settings{}, err
	}
	metrics, err := metricNames()
	if err != nil {
		return export.Settings{}, err
	}
	return export.Read(text, filepath.Dir(cfg.ExportsFile), metrics)
}
