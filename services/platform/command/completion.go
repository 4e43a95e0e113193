package command

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shells are those that commands are completed in.
var shells = map[string]func(root *cobra.Command, out io.Writer) error{
	"bash": func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
	"zsh":  func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	"fish": func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
}

func completion() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "print a script that completes commands and flags in a shell",
		Long: "Prints a script that completes commands and flags in a shell: source <(NAME completion bash), in bash with the package\n" +
			"bash-completion.",
		ValidArgs: []string{"bash", "zsh", "fish"}, Args: OneOf("a shell"),
		RunE: func(c *cobra.Command, args []string) error { return shells[args[0]](c.Root(), c.OutOrStdout()) },
	}
}

// Files completes the arguments of a command that are names of files or folders.
func Files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// completeFlags has names of files completed for the flags of a command whose usage calls their value FILE.
func completeFlags(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if value, _ := pflag.UnquoteUsage(f); value == "FILE" {
			_ = c.RegisterFlagCompletionFunc(f.Name, Files) // The flag exists, and each tree of commands is new.
		}
	})
}

// describe makes the usage of flags the descriptions of their completions: without the marks of their values' names, which
// only the help takes away.
func describe(root *cobra.Command) {
	each(root, func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	})
}
