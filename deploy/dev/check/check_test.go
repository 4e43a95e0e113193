package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const events = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestOne"}
{"Action":"output","Package":"a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"a","Test":"TestOne","Output":"    x_test.go:1: waited 1m30s for its turn\n"}
{"Action":"run","Package":"b","Test":"TestTwo"}
{"Action":"output","Package":"b","Test":"TestTwo","Output":"    y_test.go:1: of a test that passed\n"}
{"Action":"pass","Package":"b","Test":"TestTwo/part","Elapsed":3}
{"Action":"pass","Package":"b","Test":"TestTwo","Elapsed":3.5}
{"Action":"output","Package":"b","Test":"TestThree","Output":"    y_test.go:2: got 1, want 2\n"}
{"Action":"pass","Package":"a","Test":"TestOne","Elapsed":91.25}
{"Action":"output","Package":"a","Output":"PASS\n"}
{"Action":"output","Package":"a","Output":"ok  \ta\t92.1s\n"}
{"Action":"pass","Package":"a","Elapsed":92.1}
{"Action":"fail","Package":"b","Test":"TestThree","Elapsed":0.5}
{"Action":"output","Package":"b","Test":"TestFour","Output":"panic: no more\n"}
{"Action":"output","Package":"b","Output":"FAIL\tb\t4s\n"}
{"Action":"fail","Package":"b","Elapsed":4}
{"ImportPath":"c","Action":"build-output","Output":"c.go:1: undefined: x\n"}
go: a line that is no event
{"Action":"output","Package":"d","Output":"?   \td\t[no test files]\n"}
{"Action":"skip","Package":"d","Elapsed":0}`

func TestTestsAreShownAndTimed(t *testing.T) {
	var out, times bytes.Buffer
	if err := Tests(strings.NewReader(events), &out, &times); err != nil {
		t.Fatal(err)
	}
	want := "ok  \ta\t92.1s\n    y_test.go:2: got 1, want 2\npanic: no more\nFAIL\tb\t4s\nc.go:1: undefined: x\ngo: a line that is no event\n?   \td\t[no test files]\n"
	if out.String() != want {
		t.Errorf("shown\n%s\nwant\n%s", out.String(), want)
	}
	want = `{"Package":"b","Test":"TestTwo","Seconds":3.5}
{"Package":"a","Test":"TestOne","Seconds":1.25}
{"Package":"b","Test":"TestThree","Seconds":0.5}
`
	if times.String() != want {
		t.Errorf("times\n%s\nwant\n%s", times.String(), want)
	}
}

func TestStepsEndWithTheirTimes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var ran []string
	broken := errors.New("exit status 2")
	err := Steps(t.Context(), &out, []string{"lint", "test", "e2e"}, func(_ context.Context, target Target) (time.Duration, error) {
		ran = append(ran, target.Name)
		if target.Name == "lint" {
			return 12 * time.Second, nil
		}
		file, err := os.OpenFile(target.Times, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		return 0, errors.Join(Tests(strings.NewReader(events), &bytes.Buffer{}, file), file.Close(), broken)
	})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "test: ") {
		t.Errorf("error %v, want that of the step test", err)
	}
	if !slices.Equal(ran, []string{"lint", "test"}) {
		t.Errorf("ran %q", ran)
	}
	for _, want := range []string{"     0.0     12.0  lint\n", "     0.0      0.0  test\n", "     12.0  all\n", "     3.5  b TestTwo\n     1.2  a TestOne\n     0.5  b TestThree\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// The first target of a step ends only when the others run beside it; here they wait for each other.
func TestTargetsOfAStepRunTogether(t *testing.T) {
	t.Parallel()
	broken := errors.New("exit status 2")
	for failing, want := range map[string]struct {
		ran []string
		err string
	}{
		"":     {[]string{"e2e", "lint", "k8s", "bench"}, ""},
		"e2e":  {[]string{"e2e", "lint", "k8s"}, "e2e: exit status 2"},
		"lint": {[]string{"e2e", "lint"}, "lint: exit status 2"},
	} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		begun := make(chan string)
		err = Steps(t.Context(), out, []string{"e2e+lint+k8s", "bench"}, func(_ context.Context, target Target) (time.Duration, error) {
			if target.Beside != (target.Name == "lint" || target.Name == "k8s") {
				t.Errorf("%s is beside another: %t", target.Name, target.Beside)
			}
			switch target.Name {
			case "e2e":
				<-begun
			case "lint":
				begun <- "lint"
			}
			_, err := io.WriteString(target.Out, target.Name+" printed\n")
			if target.Name == failing {
				err = broken
			}
			return 0, err
		})
		if err == nil && want.err != "" || err != nil && err.Error() != want.err {
			t.Errorf("%q fails: error %v, want %q", failing, err, want.err)
		}
		printed, err := os.ReadFile(out.Name())
		if err := errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"e2e", "lint", "k8s", "bench"} {
			ran := slices.Contains(want.ran, name)
			if found := strings.Contains(string(printed), name+" printed\n"); found != ran {
				t.Errorf("%q fails: what %s printed is there: %t, want %t:\n%s", failing, name, found, ran, printed)
			}
		}
		if line := "lint, beside the one above\n"; !strings.Contains(string(printed), line) {
			t.Errorf("%q fails: %q is not in\n%s", failing, line, printed)
		}
	}
}

func TestListHasTheSlowest(t *testing.T) {
	t.Parallel()
	tests := make([]testTime, 3*slowest)
	for i := range tests {
		tests[i] = testTime{"p", "Test", float64(i)}
	}
	got := list([]step{{name: "test", took: 90 * time.Second}}, 91*time.Second, tests)
	if n := strings.Count(got, "p Test"); n != slowest || !strings.Contains(got, "    29.0  p Test\n    28.0") || !strings.Contains(got, "    90.0      0.0  test\n    91.0      0.0  all\n") {
		t.Errorf("%d tests:\n%s", n, got)
	}
	if got := list(nil, 0, nil); strings.Contains(got, "slowest") {
		t.Errorf("without tests:\n%s", got)
	}
}

func TestCommandWritesEvents(t *testing.T) {
	t.Parallel()
	got, err := Command([]string{"go", "test", "-race", "work"})
	if want := []string{"go", "test", "-json", "-race", "work"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, args := range [][]string{nil, {"go"}, {"go", "vet"}, {"true", "test"}} {
		if got, err := Command(args); err == nil {
			t.Errorf("%q becomes %q", args, got)
		}
	}
}
