package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/telemetry"
)

// Service describes a service whose settings are a C.
type Service[C any] struct {
	// Name of the program, and what it is in a few words.
	Name, Short string
	// Prefix of the settings' names.
	Prefix string
	// Load reads the settings by config.Load. With an error, it returns those that could be read, and defaults for others.
	Load func() (C, error)
	// Roles are what the program can serve as. The first one is what it does without a command.
	Roles []Role[C]
	// Migrate applies the pending migrations and writes their names to w.
	Migrate func(ctx context.Context, cfg C, w io.Writer) error
	// Files checks the files and folders that settings name. Its error joins all problems, each with its setting.
	Files func(cfg C) error
}

// Role is a long-running command of a service.
type Role[C any] struct {
	Name, Short string
	// Serve runs the role until ctx ends.
	Serve func(ctx context.Context, cfg C) error
	// Check returns what the role misses in the settings; nil for a role that needs no more than Load checks.
	Check func(cfg C) error
	// Face is where the role answers whether it is ready.
	Face func(cfg C) Face
}

// Root returns the program's command with the commands of every service and further ones.
func (s Service[C]) Root(further ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: s.Name, Short: s.Short, Version: telemetry.Version(), Args: unknownCommand,
		Long: s.Short + "\n\n" + s.settings() + "\n\nWithout a command it does what " + s.Roles[0].Name + " does.",
	}
	for i, role := range s.Roles {
		c := &cobra.Command{Use: role.Name, Short: role.Short, Long: role.Short + "\n\n" + s.settings(), RunE: s.With(
			func(c *cobra.Command, cfg C, _ []string) error { return role.Serve(c.Context(), cfg) },
		)}
		if i == 0 {
			root.RunE = c.RunE
		}
		root.AddCommand(c)
	}
	root.AddCommand(s.migrate(), s.config(), s.healthcheck())
	root.AddCommand(further...)
	return root
}

// With returns a command's RunE that reads the settings and calls do with them. Its context ends with the first SIGINT or
// SIGTERM, so that do can end in order; a second one ends the process at once.
func (s Service[C]) With(do func(c *cobra.Command, cfg C, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cfg, err := s.Load()
		if err != nil {
			return s.wrong(err)
		}
		ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop)
		c.SetContext(ctx)
		return do(c, cfg, args)
	}
}

// wrong returns the error of settings, which names all that are wrong.
func (s Service[C]) wrong(err error) error {
	return fmt.Errorf("settings: (`%s config` prints and checks them)\n%w", s.Name, err)
}

// settings says how the program is configured.
func (s Service[C]) settings() string {
	var cfg C
	return "Settings are environment variables that begin with " + s.Prefix + "_. Required are:\n  " +
		strings.Join(config.Required(s.Prefix, cfg), "\n  ") + "\n`" + s.Name + " config` prints all of them and checks the files that they name."
}

func (s Service[C]) migrate() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "apply the migrations that the database lacks, and print their names",
		RunE: s.With(func(c *cobra.Command, cfg C, _ []string) error { return s.Migrate(c.Context(), cfg, c.OutOrStdout()) }),
	}
}

func (s Service[C]) config() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "print the effective settings, and check them and the files that they name",
		Long: "Prints the effective settings, with passwords redacted, and checks them and the files and folders that they name,\n" +
			"as a start reads them, without connecting to anything. Every problem is a line on standard error; the exit code is 1 then.\n" +
			"A setting that can't be read is printed with its default. OpenTelemetry's own variables, OTEL_*, are checked, too.\n\n" + s.settings(),
		Args: cobra.ArbitraryArgs,
	}
	s.roles(c)
	skip := c.Flags().Bool("skip-files", false, "don't check files and folders, for settings of another machine")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := s.Load()
		if err := config.Print(c.OutOrStdout(), s.Prefix, cfg); err != nil {
			return err
		}
		errs := []error{err, telemetry.Check()}
		if role := s.role(args); len(args) > 0 && role.Check != nil {
			errs = append(errs, config.Further(err, role.Check(cfg)))
		}
		if !*skip {
			errs = append(errs, config.Further(err, s.Files(cfg)), telemetry.CheckFiles())
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("settings:\n%w", err)
		}
		return nil
	}
	return c
}

// maxProbe bounds how long a health check may take.
const maxProbe = time.Minute

func (s Service[C]) healthcheck() *cobra.Command {
	c := &cobra.Command{
		Use: "healthcheck", Short: "ask the running service on this machine whether it is ready",
		Long: "Asks the service that runs on this machine with the same settings whether it is ready, at its own listening address.\n" +
			"Prints one line; the exit code is 0 if it is ready and 1 otherwise.",
	}
	s.roles(c)
	timeout := c.Flags().Duration("timeout", 5*time.Second, "how long the answer may take, at most 1m")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if *timeout <= 0 || *timeout > maxProbe {
			return Wrong(c, "--timeout: want more than 0 and at most 1m")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := s.Load()
		if err != nil {
			return fmt.Errorf("healthcheck: wrong settings; `%s config` lists them", s.Name)
		}
		ctx, cancel := context.WithTimeout(c.Context(), *timeout)
		defer cancel()
		if err := s.role(args).Face(cfg).Ready(ctx); err != nil {
			return fmt.Errorf("healthcheck: %w", err)
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), "ready")
		return err
	}
	return c
}

// roles gives a command the name of a role as an argument, if there are several.
func (s Service[C]) roles(c *cobra.Command) {
	if c.Args = NoArgs; len(s.Roles) == 1 {
		return
	}
	for _, role := range s.Roles {
		c.ValidArgs = append(c.ValidArgs, role.Name)
	}
	c.Use += " [" + strings.Join(c.ValidArgs, "|") + "]"
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return OneOf("a role")(c, args)
	}
}

// role returns the one that the arguments name, or the first.
func (s Service[C]) role(args []string) Role[C] {
	for _, role := range s.Roles {
		if len(args) > 0 && role.Name == args[0] {
			return role
		}
	}
	return s.Roles[0]
}
