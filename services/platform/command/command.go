// Package command is the command line that all services share: help, version and completion, the commands that every
// service has, wrong calls with the nearest right name, and exit codes. A service's app package describes itself with a
// Service, adds the commands that only it has, and calls Run. Only commands that need settings read them.
package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Standard returns the streams of the process.
func Standard() Streams { return Streams{os.Stdin, os.Stdout, os.Stderr} }

// Run runs the command that args name, without the program's own name, until it ends. It returns the exit code: 0, 2 for
// a wrong call, which it answers with one line, or ExitCode of the command's error, which it prints. SIGINT and SIGTERM
// end the process at once, except while commands of Service.With run.
func Run(root *cobra.Command, args []string, streams Streams) int {
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	complete(root)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		describe(root)
	}
	root.SetArgs(long(root, args))
	err := root.Execute()
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(streams.Err, "%s: %s\n", root.Name(), err)
	if failed, ok := errors.AsType[*failure](err); ok {
		return ExitCode(failed.err)
	}
	return usageCode
}

// complete gives a tree of commands what all of them have in common.
func complete(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetHelpCommand(help())
	root.AddCommand(version(root.Version), completion())
	root.SetFlagErrorFunc(wrongFlag)
	each(root, func(c *cobra.Command) {
		c.DisableFlagsInUseLine = true
		c.Flags().SortFlags = false
		if c.Args == nil {
			c.Args = NoArgs
		}
		completeFlags(c)
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error { return failed(run(c, args)) }
		}
	})
}

// each calls do for a command and all below it.
func each(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		each(sub, do)
	}
}

// long gives the flags that are written with one dash, as releases before 0043 took them, their second one. Only names
// of flags are changed.
func long(root *cobra.Command, args []string) []string {
	known := make(map[string]bool)
	each(root, func(c *cobra.Command) {
		for _, name := range flagNames(c) {
			known[name] = true
		}
	})
	given := make([]string, len(args))
	copy(given, args)
	for i, arg := range given {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && len(name) > 1 && known[name] {
			given[i] = "-" + arg
		}
	}
	return given
}

// Group returns a command that only holds others.
func Group(name, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: name, Short: short, Args: unknownCommand, RunE: func(c *cobra.Command, _ []string) error {
		return Wrong(c, "want one of its commands: "+strings.Join(names(c), ", "))
	}}
	group.AddCommand(commands...)
	return group
}

func version(text string) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the version of this build", RunE: func(c *cobra.Command, _ []string) error {
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s version %s\n", c.Root().Name(), text)
		return err
	}}
}

func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "print what a command does and which flags it takes", Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(found), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return &exit{usageCode, unknownCommand(found, rest)}
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
