package command

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"switchyard.dev/services/platform/spelling"
)

// usageCode is the exit code of a call that no command takes.
const usageCode = 2

// exit is an error with which a command ends with a code of its own.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

// WithCode returns an error with which a command ends with a code of its own.
func WithCode(code int, err error) error { return &exit{code, err} }

// ExitCode returns the code with which a command ends that returned an error: 0 for nil, 1 unless the command says
// another.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exit](err); ok {
		return e.code
	}
	return 1
}

// failure is an error of a command that was called rightly.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

// Wrong returns the error of a call that a command doesn't take: rule says what it wants.
func Wrong(c *cobra.Command, rule string) error {
	return WithCode(usageCode, errors.New(line(c, rule)))
}

// line returns the one line that answers a wrong call.
func line(c *cobra.Command, problem string) string {
	if _, below, ok := strings.Cut(c.CommandPath(), " "); ok {
		problem = below + ": " + problem
	}
	if strings.HasSuffix(problem, "?") {
		return problem + " See " + c.CommandPath() + " --help"
	}
	return problem + "; see " + c.CommandPath() + " --help"
}

// plain matches what may be repeated: names of commands and flags. Anything else may be a secret in the wrong place.
var plain = regexp.MustCompile(`^[a-z][a-z-]{0,23}$`)

// unlike returns the problem of a name that is none of those known, with the nearest one.
func unlike(what, name, dashes string, known []string) string {
	problem := "unknown " + what
	if plain.MatchString(name) {
		problem += fmt.Sprintf(" %q", dashes+name)
	}
	if nearest := spelling.Nearest(name, known, "-", max(2, len(name)/3)); nearest != "" {
		return problem + "; did you mean " + dashes + nearest + "?"
	}
	return problem
}

// names returns the names of a command's commands.
func names(c *cobra.Command) (all []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, sub.Name())
		}
	}
	return all
}

// flagNames returns the names of a command's flags.
func flagNames(c *cobra.Command) []string {
	all := []string{"help"}
	if !c.HasParent() && c.Version != "" {
		all = append(all, "version")
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(all, f.Name) {
			all = append(all, f.Name)
		}
	})
	return all
}

// unknownCommand refuses arguments of a command that only holds others.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return errors.New(line(c, unlike("command", args[0], "", append(names(c), "help"))))
}

// wrongFlag returns the error of flags that a command doesn't take.
func wrongFlag(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
		return unknownCommand(c, args)
	}
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if missing.GetSpecifiedShortnames() != "" { // A letter, which is near to no name.
			return errors.New(line(c, unlike("flag", missing.GetSpecifiedName(), "-", nil)))
		}
		return errors.New(line(c, unlike("flag", missing.GetSpecifiedName(), "--", flagNames(c))))
	}
	return errors.New(line(c, err.Error()))
}

// NoArgs refuses arguments, without repeating them: one may be a secret.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errors.New(line(c, "takes no arguments"))
	}
	return nil
}

// Args returns a check of the number of arguments. most is 0 for any number.
func Args(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most > 0 && len(args) > most {
			return errors.New(line(c, "want "+c.Use))
		}
		return nil
	}
}

// OneOf returns a check that there is one argument, one of the command's ValidArgs. what names it.
func OneOf(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 && slices.Contains(c.ValidArgs, args[0]) {
			return nil
		}
		return errors.New(line(c, "want "+what+": "+strings.Join(c.ValidArgs, ", ")))
	}
}
