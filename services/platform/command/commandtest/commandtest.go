// Package commandtest tests the command line of a service. Only tests import it.
package commandtest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/testkit"
)

// Result is what became of a command.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command of a fresh tree with the text on standard input.
func Run(root *cobra.Command, in string, args ...string) Result {
	var out, err bytes.Buffer
	code := command.Run(root, args, command.Streams{In: strings.NewReader(in), Out: &out, Err: &err})
	return Result{code, out.String(), err.String()}
}

// suite is what the tests of a command line have in common.
type suite struct {
	// root returns a fresh tree of commands without any environment.
	root func() *cobra.Command
	// tree is one that has run, so that it has the commands that all programs have.
	tree *cobra.Command
	name string
	// commands are all of them, without the program's name.
	commands [][]string
}

// Suite checks what every service's command line keeps: help, version and completion work and wrong calls are refused
// without any settings, and the documents in dir name commands and flags that exist, and all commands. required is a
// setting without which no command that needs settings runs. root returns a fresh tree of commands, given the
// environment.
func Suite(t *testing.T, root func(environ []string) *cobra.Command, dir, required string) {
	t.Helper()
	s := &suite{root: func() *cobra.Command { return root(nil) }}
	s.tree = s.root()
	Run(s.tree, "", "version")
	s.name = s.tree.Name()
	s.walk(s.tree)
	t.Run("help", s.help)
	t.Run("version", s.version)
	t.Run("completion", s.completion)
	t.Run("wrong calls", s.wrong)
	t.Run("secrets in the wrong place", s.secrets)
	t.Run("without settings", func(t *testing.T) { s.unset(t, required) })
	t.Run("documents", func(t *testing.T) { s.documents(t, dir) })
}

func (s *suite) walk(c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			s.commands = append(s.commands, strings.Fields(sub.CommandPath())[1:])
			s.walk(sub)
		}
	}
}

func (s *suite) help(t *testing.T) {
	for _, path := range append(s.commands, nil) {
		for _, args := range [][]string{append(slices.Clone(path), "--help"), append(slices.Clone(path), "-h"), append([]string{"help"}, path...)} {
			got := Run(s.root(), "", args...)
			if got.Code != 0 || got.Err != "" || !strings.Contains(got.Out, "Usage:") || !strings.Contains(got.Out, strings.Join(append([]string{s.name}, path...), " ")) {
				t.Errorf("%v: %+v, want its help", args, got)
			}
		}
	}
}

func (s *suite) version(t *testing.T) {
	for _, flag := range []string{"version", "--version"} {
		if got := Run(s.root(), "", flag); got.Code != 0 || got.Err != "" || !strings.HasPrefix(got.Out, s.name+" version ") || strings.Count(got.Out, "\n") != 1 {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

func (s *suite) completion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "#compdef " + s.name, "fish": "complete -c " + s.name} {
		if got := Run(s.root(), "", "completion", shell); got.Code != 0 || !strings.Contains(got.Out, want) {
			t.Errorf("completion of %s: code %d, %q; want %q in it", shell, got.Code, got.Err, want)
		}
	}
	got := Run(s.root(), "", "__complete", "")
	for _, path := range s.commands {
		if len(path) == 1 && !strings.Contains(got.Out, path[0]+"\t") {
			t.Errorf("%s is not completed:\n%s", path[0], got.Out)
		}
	}
}

// refused checks that a call is answered with code 2 and one line that holds the texts.
func refused(t *testing.T, got Result, args []string, texts ...string) {
	t.Helper()
	if got.Code != 2 || got.Out != "" || strings.Count(got.Err, "\n") != 1 {
		t.Errorf("%v: %+v, want code 2 and one line", args, got)
	}
	for _, text := range texts {
		if !strings.Contains(got.Err, text) {
			t.Errorf("%v: %q, want %q in it", args, got.Err, text)
		}
	}
}

func (s *suite) wrong(t *testing.T) {
	for args, want := range map[string]string{
		"srve": "did you mean serve?", "migrat": "did you mean migrate?", "migrate --x": "unknown flag", "confg": "did you mean config?",
		"health": "unknown command", "zzzzzzzzzz": `unknown command "zzzzzzzzzz"`, "completion": "bash, zsh, fish", "completion csh": "bash, zsh, fish",
		"help srve": "did you mean serve?", "--versio": "did you mean --version?", "srve --port=1": "did you mean serve?",
		"healthcheck --timeout=0s": "--timeout", "healthcheck --timeout=2m": "--timeout", "config --skip-file": "did you mean --skip-files?",
	} {
		refused(t, Run(s.root(), "", strings.Fields(args)...), []string{args}, want)
	}
	for _, path := range s.commands {
		args := append(slices.Clone(path), "--hlep")
		refused(t, Run(s.root(), "", args...), args, "did you mean --help?", strings.Join(path, " "))
	}
}

// secrets checks that arguments which are no names are not repeated.
func (s *suite) secrets(t *testing.T) {
	const key = "sk-canary-0123456789"
	for _, path := range append(s.commands, nil) {
		for _, args := range [][]string{append(slices.Clone(path), "--"+key), append(slices.Clone(path), "--"+key+"=x"), append(slices.Clone(path), key, key, key, key)} {
			got := Run(s.root(), "", args...)
			if got.Code == 0 {
				t.Errorf("%v is taken", args)
			}
			if takesFiles := len(path) == 2 && path[1] == "check"; !takesFiles {
				testkit.NoLeak(t, key, got.Out+got.Err)
			}
		}
	}
}

func (s *suite) unset(t *testing.T, required string) {
	t.Helper()
	for _, args := range [][]string{{}, {"serve"}, {"migrate"}, {"config"}} {
		if got := Run(s.root(), "", args...); got.Code != 1 || !strings.Contains(got.Err, required) {
			t.Errorf("%v: %+v, want code 1 and %s", args, got, required)
		}
	}
	if got := Run(s.root(), "", "healthcheck"); got.Code != 1 || !strings.Contains(got.Err, s.name+" config") || strings.Count(got.Err, "\n") != 1 {
		t.Errorf("healthcheck: %+v, want code 1 and one line that names config", got)
	}
	if got := Run(s.root(), "", "--help"); !strings.Contains(got.Out, required) || !strings.Contains(got.Out, s.name+" config") {
		t.Errorf("the help names neither %s nor config:\n%s", required, got.Out)
	}
}

// documents checks the commands in the README and docs of a service.
func (s *suite) documents(t *testing.T, dir string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := filepath.Join(dir, "README.md")
	named := make(map[string]bool)
	for _, path := range append(pages, readme) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range s.calls(string(text)) {
			if wrong := s.wrongIn(call); wrong != "" {
				t.Errorf("%s: %s %s: there is no %s", path, s.name, strings.Join(call, " "), wrong)
			}
			if path == readme {
				named[call[0]] = true
			}
		}
	}
	for _, path := range s.commands {
		if len(path) == 1 && !named[path[0]] {
			t.Errorf("%s doesn't name %s %s", readme, s.name, path[0])
		}
	}
}

// wrongIn returns the first command or flag of a call that doesn't exist, or "". Flags have two dashes.
func (s *suite) wrongIn(call []string) string {
	found, _, err := s.tree.Find(call)
	if err != nil {
		return call[0]
	}
	if found == s.tree && !strings.HasPrefix(call[0], "-") {
		return call[0]
	}
	found.InitDefaultHelpFlag()
	found.InitDefaultVersionFlag()
	for _, arg := range call {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if strings.HasPrefix(arg, "--") && found.Flags().Lookup(name) == nil {
			return arg
		}
		if !strings.HasPrefix(arg, "--") && len(arg) > 2 && arg[0] == '-' {
			return arg
		}
	}
	return ""
}

var (
	span = regexp.MustCompile("`([^`\n]+)`")
	word = regexp.MustCompile(`^-{0,2}[A-Za-z0-9…_./:=,-]+$`)
)

// calls returns the calls of the program in code blocks and spans, as arguments up to the first that is no plain word.
func (s *suite) calls(text string) (all [][]string) {
	var code []string
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    "):
			code = append(code, strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("|&;", r) })...)
		default:
			for _, match := range span.FindAllStringSubmatch(line, -1) {
				code = append(code, match[1])
			}
		}
	}
	for _, piece := range code {
		words := strings.Fields(piece)
		if len(words) < 2 || words[0] != s.name {
			continue
		}
		end := slices.IndexFunc(words, func(w string) bool { return !word.MatchString(w) })
		if end < 0 {
			end = len(words)
		}
		if end > 1 {
			all = append(all, words[1:end])
		}
	}
	return all
}

// Problems checks that config has found as many problems, each in lines that begin with the name of another setting.
func Problems(t *testing.T, got Result, prefix string, want int) {
	t.Helper()
	names := make(map[string]bool)
	for line := range strings.Lines(got.Err) {
		if strings.HasPrefix(line, prefix) {
			name, _, _ := strings.Cut(line, ":")
			names[name] = true
		}
	}
	if got.Code != 1 || len(names) != want {
		t.Errorf("code %d with problems of %d settings, want %d:\n%s", got.Code, len(names), want, got.Err)
	}
}
