// Package check runs the steps of `make ci` and the tests in them, and lists what took long.
package check

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// TimesFile is the environment variable that names the file to which [Tests] appends how long each test took.
const TimesFile = "SWITCHYARD_TEST_TIMES"

// slowest is how many tests the list at the end has.
const slowest = 10

// Target is a target of the Makefile to run.
type Target struct {
	Name   string
	Times  string    // the file that [TimesFile] has to name for its tests
	Beside bool      // it runs beside another target, which goes first
	Out    io.Writer // for what it prints
}

// Run runs a target. It returns the processor time that the target took.
type Run func(context.Context, Target) (processor time.Duration, err error)

// step is a target that has run.
type step struct {
	name            string
	took, processor time.Duration
	beside          bool
}

// Steps runs the steps one after another until one fails, and writes the times of each and the slowest tests of all. A
// step is a target, or several joined by "+": the first of them, and beside it the others one after another. out must be safe for
// concurrent use.
func Steps(ctx context.Context, out io.Writer, steps []string, run Run) (err error) {
	file, err := os.CreateTemp("", "switchyard-times-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	if err := file.Close(); err != nil {
		return err
	}
	begun := time.Now()
	var done []step
	for _, names := range steps {
		var ran []step
		ran, err = together(ctx, out, strings.Split(names, "+"), file.Name(), run)
		done = append(done, ran...)
		if err != nil {
			break
		}
	}
	tests, readErr := readTimes(file.Name())
	_, writeErr := io.WriteString(out, list(done, time.Since(begun), tests))
	return errors.Join(err, readErr, writeErr)
}

// together runs a target and others beside it, until all have ended or one of the others has failed and the first has
// ended. What one of the others prints is written when it ends.
func together(ctx context.Context, out io.Writer, names []string, times string, run Run) (ran []step, err error) {
	var others []step
	var group errgroup.Group
	group.Go(func() error {
		for _, name := range names[1:] {
			var printed bytes.Buffer
			s, err := timed(ctx, Target{name, times, true, &printed}, run)
			others = append(others, s)
			if _, writeErr := printed.WriteTo(out); err != nil || writeErr != nil {
				return errors.Join(err, writeErr)
			}
		}
		return nil
	})
	first, err := timed(ctx, Target{names[0], times, false, out}, run)
	err = errors.Join(err, group.Wait())
	return append([]step{first}, others...), err
}

func timed(ctx context.Context, target Target, run Run) (step, error) {
	begun := time.Now()
	processor, err := run(ctx, target)
	if err != nil {
		err = fmt.Errorf("%s: %w", target.Name, err)
	}
	return step{target.Name, time.Since(begun), processor, target.Beside}, err
}

// list returns the times of the steps in their order, and the slowest of the tests.
func list(steps []step, whole time.Duration, tests []testTime) string {
	var text strings.Builder
	var processor time.Duration
	text.WriteString("\nSteps, in seconds and in seconds of processors:\n")
	for _, s := range steps {
		processor += s.processor
		beside := ""
		if s.beside {
			beside = ", beside the one above"
		}
		fmt.Fprintf(&text, "%8.1f %8.1f  %s%s\n", s.took.Seconds(), s.processor.Seconds(), s.name, beside)
	}
	fmt.Fprintf(&text, "%8.1f %8.1f  all\n", whole.Seconds(), processor.Seconds())
	if len(tests) == 0 {
		return text.String()
	}
	slices.SortStableFunc(tests, func(a, b testTime) int { return cmp.Compare(b.Seconds, a.Seconds) })
	text.WriteString("\nThe slowest tests, in seconds without the time that they waited for their turn:\n")
	for _, t := range tests[:min(slowest, len(tests))] {
		fmt.Fprintf(&text, "%8.1f  %s %s\n", t.Seconds, t.Package, t.Test)
	}
	return text.String()
}

// readTimes reads what [Tests] has appended to a file.
func readTimes(name string) (tests []testTime, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var t testTime
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return tests, fmt.Errorf("%s: %w", name, err)
		}
		tests = append(tests, t)
	}
	return tests, lines.Err()
}
