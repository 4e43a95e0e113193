package recipes

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/net/html"
)

// Shown returns all code that a page of the site of documents shows, in its order: what a reader copies.
func Shown(page io.Reader) (string, error) {
	tree, err := html.Parse(page)
	if err != nil {
		return "", err
	}
	var code strings.Builder
	for n := range tree.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data == "code" && n.Parent.Parent.Data == "pre" {
			code.WriteString(n.Data + "\n")
		}
	}
	return code.String(), nil
}

// outlived is how long what a script has left running may hold its output.
const outlived = time.Second

// Run runs a script of bash in a folder, with no other variables than env. It ends at the first line that fails, and
// returns all that was printed, each line behind the command that printed it.
func Run(ctx context.Context, dir string, env []string, script string) ([]byte, error) {
	run := exec.CommandContext(ctx, "bash", "-xeuo", "pipefail", "-c", script)
	run.Dir, run.Env, run.WaitDelay = dir, env, outlived
	return run.CombinedOutput()
}
