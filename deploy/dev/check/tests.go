package check

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// testTime is how long a test took.
type testTime struct {
	Package, Test string
	Seconds       float64
}

// event is one of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// waited matches what a test of deploy/e2e logs when it had to wait for its turn, a time that package testing counts.
var waited = regexp.MustCompile(`waited (\S+) for its turn`)

// packageRun is the run of one package's tests so far.
type packageRun struct {
	passed  map[string]bool
	waits   map[string]time.Duration
	outputs []event // that may be shown, in their order
}

// Tests reads the events of `go test -json`, writes what go test itself would have written, and appends the time of each
// test to times: a line of JSON for each that is not a part of another.
func Tests(events io.Reader, out, times io.Writer) error {
	runs := make(map[string]*packageRun)
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := read(line, runs, out, times); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func read(line []byte, runs map[string]*packageRun, out, times io.Writer) error {
	var e event
	if json.Unmarshal(line, &e) != nil { // The go command writes some errors as they are.
		_, err := out.Write(line)
		return err
	}
	if e.Action == "build-output" {
		_, err := io.WriteString(out, e.Output)
		return err
	}
	run := runs[e.Package]
	if run == nil {
		run = &packageRun{passed: make(map[string]bool), waits: make(map[string]time.Duration)}
		runs[e.Package] = run
	}
	if e.Action == "output" {
		run.add(e)
		return nil
	}
	if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
		return nil
	}
	if e.Test == "" {
		delete(runs, e.Package)
		_, err := io.WriteString(out, run.text(e.Action == "fail"))
		return err
	}
	run.passed[e.Test] = e.Action != "fail"
	if strings.Contains(e.Test, "/") {
		return nil
	}
	return json.NewEncoder(times).Encode(testTime{e.Package, e.Test, max(0, e.Elapsed-run.waits[e.Test].Seconds())})
}

func (r *packageRun) add(e event) {
	if found := waited.FindStringSubmatch(e.Output); found != nil {
		if d, err := time.ParseDuration(found[1]); err == nil {
			r.waits[e.Test] += d
		}
	}
	r.outputs = append(r.outputs, e)
}

// text returns what is to be shown of a package: its line, and of one that failed all that it and the tests wrote which
// didn't pass.
func (r *packageRun) text(failed bool) string {
	var text strings.Builder
	for _, e := range r.outputs {
		if failed && !r.passed[e.Test] || e.Test == "" && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "? ")) {
			text.WriteString(e.Output)
		}
	}
	return text.String()
}

// Command returns the arguments of a command that runs tests and writes events; an error if it isn't `go test`.
func Command(args []string) ([]string, error) {
	if len(args) < 2 || args[0] != "go" || args[1] != "test" {
		return nil, fmt.Errorf("%q: want go test", args)
	}
	return append([]string{"go", "test", "-json"}, args[2:]...), nil
}
