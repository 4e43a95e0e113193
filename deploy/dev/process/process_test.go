package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitTimeout bounds a wait for something that must happen.
const waitTimeout = 20 * time.Second

func shell(t *testing.T, script string) Spec {
	t.Helper()
	return Spec{
		Name: "worker",
		Path: "/bin/sh",
		Args: []string{"-c", script},
		Env:  []string{"PATH=/usr/bin:/bin"},
		Log:  filepath.Join(t.TempDir(), "worker.log"),
	}
}

func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func wait(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(waitTimeout):
		t.Fatal("the process did not end")
	}
}

// says returns a check that succeeds once the log holds a word.
func says(p *Process, word string) func(context.Context) error {
	return func(context.Context) error {
		if strings.Contains(p.Tail(100), word) {
			return nil
		}
		return errors.New("the log lacks: " + word)
	}
}

func TestStopSendsASignalFirst(t *testing.T) {
	p := start(t, shell(t, `trap 'echo bye; exit 0' TERM; echo hello; while :; do sleep 0.02; done`))
	if err := p.Await(t.Context(), waitTimeout, says(p, "hello")); err != nil {
		t.Fatal(err)
	}
	if !p.Running() {
		t.Error("the program doesn't run")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if got := p.Tail(1); got != "bye" {
		t.Errorf("last line %q, want bye", got)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop of an ended program: %v", err)
	}
}

func TestStopUsesTheSignalOfTheSpec(t *testing.T) {
	spec := shell(t, `trap 'echo interrupted; exit 0' INT; trap '' TERM; echo up; while :; do sleep 0.02; done`)
	spec.End = syscall.SIGINT
	p := start(t, spec)
	if err := p.Await(t.Context(), waitTimeout, says(p, "up")); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if got := p.Tail(1); got != "interrupted" {
		t.Errorf("last line %q, want interrupted", got)
	}
}

func TestStopKillsAProgramThatIgnoresTheSignal(t *testing.T) {
	p := start(t, shell(t, `trap '' TERM; echo up; while :; do sleep 0.02; done`))
	if err := p.Await(t.Context(), waitTimeout, says(p, "up")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("Stop = %v, want an error that says it was killed", err)
	}
	if p.Running() {
		t.Error("the program still runs")
	}
}

func TestStopReportsABadExit(t *testing.T) {
	p := start(t, shell(t, `trap 'exit 3' TERM; echo up; while :; do sleep 0.02; done`))
	if err := p.Await(t.Context(), waitTimeout, says(p, "up")); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Stop = %v, want exit status 3", err)
	}
}

func TestKillTakesTheChildrenToo(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// The child holds the pipe open for writing, so a read to its end returns only after the child has ended.
	p := start(t, shell(t, `(exec 3>`+fifo+`; echo open; while :; do sleep 0.02; done) & wait`))
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	if err := p.Await(t.Context(), waitTimeout, says(p, "open")); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if err := pipe.SetReadDeadline(time.Now().Add(waitTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the child outlived the kill")
	}
}

func TestStartAgainShowsOnlyTheNewRun(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "seen")
	p := start(t, shell(t, `if [ -e `+marker+` ]; then echo second; else echo first; touch `+marker+`; fi`))
	wait(t, p)
	if got := p.Tail(5); got != "first" {
		t.Fatalf("first run logged %q", got)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if got := p.Tail(5); got != "second" {
		t.Errorf("Tail after the second run = %q, want its own line only", got)
	}
	if err := p.Result(); err != nil {
		t.Errorf("Result = %v", err)
	}
}

func TestStartRefusesASecondRunAtOnce(t *testing.T) {
	p := start(t, shell(t, `while :; do sleep 0.02; done`))
	if err := p.Start(); err == nil {
		t.Error("a running process was started again")
	}
}

func TestAwaitReportsWhyItIsNotReady(t *testing.T) {
	never := func(context.Context) error { return errors.New("503 from /health/ready") }
	tests := []struct {
		name, script string
		timeout      time.Duration
		want         []string
	}{
		{"it ended", `echo the setting X is missing; exit 2`, waitTimeout, []string{"ended before it was ready", "exit status 2", "the setting X is missing"}},
		{"it takes too long", `echo thinking; while :; do sleep 0.02; done`, 300 * time.Millisecond, []string{"was not ready within 300ms", "503 from /health/ready", "thinking"}},
		{"it is silent", `exit 1`, waitTimeout, []string{"it wrote nothing to", "worker.log"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, shell(t, tt.script))
			err := p.Await(t.Context(), tt.timeout, never)
			if err == nil {
				t.Fatal("it became ready")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestRun(t *testing.T) {
	if err := Run(t.Context(), shell(t, `echo done`)); err != nil {
		t.Errorf("Run = %v", err)
	}
	err := Run(t.Context(), shell(t, `echo no such table; exit 1`))
	if err == nil || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("Run = %v, want the log in it", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, shell(t, `while :; do sleep 0.02; done`)); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want %v", err, context.Canceled)
	}
}

func TestLastLines(t *testing.T) {
	tests := []struct {
		name, text string
		n          int
		want       string
	}{
		{"fewer than asked", "a\nb\n", 5, "a\nb"},
		{"more than asked", "a\nb\nc\n", 2, "b\nc"},
		{"an unfinished line", "a\nb", 1, "b"},
		{"nothing", "", 3, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lastLines(tt.text, tt.n); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
