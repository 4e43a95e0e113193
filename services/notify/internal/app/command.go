package app

import (
	"maps"
	"os"

	"github.com/spf13/cobra"

	"switchyard.dev/services/notify/internal/webpush"
	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/config"
)

// Main runs the command that the arguments name and returns its exit code.
func Main(args []string) int { return command.Run(root(os.Environ()), args, command.Standard()) }

// root returns the command line, with the settings in environ.
func root(environ []string) *cobra.Command {
	return command.Service[Config]{
		Name: serviceName, Short: "Messages to people: in-app, Slack, email, webhooks and web push.", Prefix: prefix,
		Load: func() (Config, error) { return Load(environ) },
		Roles: []command.Role[Config]{{
			Name: "serve", Short: "serve both faces until the process is asked to stop, then drain", Serve: Serve,
			Face: func(cfg Config) command.Face { return command.Face{Listen: cfg.HTTPListen, CertFile: cfg.TLS.CertFile} },
		}},
		Migrate: Migrate, Files: checkFiles,
	}.Root(vapidCommand())
}

// checkFiles checks the files and folders that settings name as a start reads them.
func checkFiles(cfg Config) error {
	checks := map[string]func() error{
		"DATABASE_URL_FILE":        cfg.database().Check,
		"SERVICE_TOKENS_FILE":      func() error { return failure(cfg.access().Tokens()) },
		"ENCRYPTION_KEY_FILE":      func() error { return failure(newBox(cfg)) },
		"CA_FILE":                  func() error { return failure(rootsOf(cfg.Delivery.CAFile)) },
		"WEB_PUSH_VAPID_KEYS_FILE": func() error { return failure(webpush.OpenKeyFile(cfg.WebPush.VAPIDKeysFile)) },
	}
	maps.Copy(checks, cfg.TLS.FileChecks("TLS_"))
	maps.Copy(checks, cfg.Webhook.EgressTLSFiles.FileChecks("WEBHOOK_EGRESS_TLS_"))
	maps.Copy(checks, cfg.redis().FileChecks())
	return config.CheckFiles(prefix, cfg, checks)
}

// failure returns the error of a loader.
func failure[T any](_ T, err error) error { return err }
