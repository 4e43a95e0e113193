// Package check runs the steps of `make ci` and the tests in them, and lists what took long.
package check

import (
	"bufio"
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
)

// TimesFile is the environment variable that names the file to which [Tests] appends how long each test took.
const TimesFile = "SWITCHYARD_TEST_TIMES"

// slowest is how many tests the list at the end has.
const slowest = 10

// step is a step with the time that it took.
type step struct {
	name string
	took time.Duration
}

// Steps runs the steps one after another until one fails, and writes the time of each and the slowest tests of all. run
// gets the name of a step and the file that TimesFile has to name for its tests.
func Steps(ctx context.Context, out io.Writer, names []string, run func(ctx context.Context, name, times string) error) (err error) {
	file, err := os.CreateTemp("", "switchyard-times-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	if err := file.Close(); err != nil {
		return err
	}
	var done []step
	for _, name := range names {
		begun := time.Now()
		err = run(ctx, name, file.Name())
		done = append(done, step{name, time.Since(begun)})
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			break
		}
	}
	tests, readErr := readTimes(file.Name())
	_, writeErr := io.WriteString(out, list(done, tests))
	return errors.Join(err, readErr, writeErr)
}

// list returns the times of the steps in their order, and the slowest of the tests.
func list(steps []step, tests []testTime) string {
	var text strings.Builder
	var whole time.Duration
	text.WriteString("\nSteps, in seconds:\n")
	for _, s := range steps {
		whole += s.took
		fmt.Fprintf(&text, "%8.1f  %s\n", s.took.Seconds(), s.name)
	}
	fmt.Fprintf(&text, "%8.1f  all\n", whole.Seconds())
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
