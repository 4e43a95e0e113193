package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"switchyard.dev/services/platform/command/commandtest"
)

// Only where a file is wanted are names of files completed.
func TestCompletion(t *testing.T) {
	const nothing, files = cobra.ShellCompDirectiveNoFileComp, cobra.ShellCompDirectiveDefault
	for _, tt := range []struct {
		words     []string
		directive cobra.ShellCompDirective
		want      string // the completions
	}{
		{[]string{"serve", ""}, nothing, ""},
		{[]string{"version", ""}, nothing, ""},
		{[]string{"migrate", ""}, nothing, ""},
		{[]string{"config", "s"}, nothing, "serve\nsell\n"},
		{[]string{"config", "serve", ""}, nothing, ""},
		{[]string{"healthcheck", "--timeout", ""}, nothing, ""},
		{[]string{"completion", "z"}, nothing, "zsh\n"},
		{[]string{"stock", "c"}, nothing, "count\tcount\n"},
		{[]string{"stock", "count", ""}, files, ""},
		{[]string{"stock", "count", "--list", ""}, files, ""},
		{[]string{"stock", "count", "--unit", ""}, nothing, ""},
		{[]string{"stock", "count", "--l"}, nothing, "--list\tFILE with a list\n"},
	} {
		got := commandtest.Run(shop(), "", append([]string{cobra.ShellCompRequestCmd}, tt.words...)...)
		if want := tt.want + fmt.Sprintf(":%d\n", tt.directive); got.Code != 0 || got.Out != want {
			t.Errorf("%s: %q, want %q", strings.Join(tt.words, " "), got.Out, want)
		}
	}
	if got := commandtest.Run(shop(), "", "stock", "count", "--help"); !strings.Contains(got.Out, "--list FILE ") {
		t.Errorf("the help doesn't name the value of a flag:\n%s", got.Out)
	}
}
