package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/testkit"
)

// TestMain runs the tests, or a command of TestSignals as a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "process" {
		os.Exit(command.Run(patient(), os.Args[2:], command.Standard()))
	}
	m.Run()
}

// patient returns the command line of a service whose commands say what they do, and end only when they are told to.
func patient() *cobra.Command {
	say := func(what string) { fmt.Println(what) }
	return command.Service[settings]{
		Name: "shop", Short: "A shop.", Prefix: "SHOP", Load: func() (cfg settings, err error) { return cfg, nil },
		Roles: []command.Role[settings]{
			{Name: "serve", Short: "serve", Face: face, Serve: func(ctx context.Context, _ settings) error {
				say("serving")
				<-ctx.Done()
				say("drained")
				return nil
			}},
			{Name: "hang", Short: "hang", Face: face, Serve: func(ctx context.Context, _ settings) error {
				say("serving")
				<-ctx.Done()
				say("draining")
				<-time.After(time.Hour)
				return nil
			}},
		},
		Files: func(settings) error {
			say("checking")
			_, err := io.ReadAll(os.Stdin)
			return err
		},
	}.Root(&cobra.Command{Use: "read", Short: "read", RunE: func(*cobra.Command, []string) error {
		say("reading")
		_, err := io.ReadAll(os.Stdin)
		return err
	}})
}

// A role and a command with connections end in order at the first signal, and at once at the second. All others end at
// the first, even while they read.
func TestSignals(t *testing.T) {
	for _, tt := range []struct {
		command, says string
		signals       []syscall.Signal
		then          string // what it says after the first signal
		killed        bool
	}{
		{"serve", "serving", []syscall.Signal{syscall.SIGTERM}, "drained", false},
		{"serve", "serving", []syscall.Signal{syscall.SIGINT}, "drained", false},
		{"hang", "serving", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, "draining", true},
		{"hang", "serving", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, "draining", true},
		{"read", "reading", []syscall.Signal{syscall.SIGINT}, "", true},
		{"read", "reading", []syscall.Signal{syscall.SIGTERM}, "", true},
		{"config", "checking", []syscall.Signal{syscall.SIGINT}, "", true},
	} {
		t.Run(fmt.Sprint(tt.command, tt.signals), func(t *testing.T) {
			t.Parallel()
			p := start(t, tt.command)
			p.await(t, tt.says)
			p.signal(t, tt.signals[0])
			if tt.then != "" {
				p.await(t, tt.then)
			}
			for _, signal := range tt.signals[1:] {
				// The process may not have released the first signal's handler yet.
				testkit.Wait(t, "the end of the process", func() error { return p.ended(signal) })
			}
			err := <-p.end
			exited, ok := errors.AsType[*exec.ExitError](err)
			if killed := ok && exited.Sys().(syscall.WaitStatus).Signaled(); killed != tt.killed || !tt.killed && err != nil {
				t.Errorf("the process ended with %v, want it killed by the signal: %t", err, tt.killed)
			}
		})
	}
}

// patience bounds what is awaited of a process.
const patience = 20 * time.Second

// process is a command that runs.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	end   chan error
}

func start(t *testing.T, name string) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The reader of standard input waits until the test is over.
	in, keep, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &process{cmd: exec.CommandContext(ctx, program, "process", name), end: make(chan error, 1)}
	p.cmd.Stdin = in
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.lines = said, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.end <- p.cmd.Wait() }()
	t.Cleanup(func() {
		cancel()
		for _, file := range []*os.File{in, keep, out} {
			_ = file.Close()
		}
	})
	if err := said.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// await reads what the process says until it says a line.
func (p *process) await(t *testing.T, want string) {
	t.Helper()
	for p.lines.Scan() {
		if line := p.lines.Text(); strings.TrimSpace(line) == want {
			return
		}
	}
	t.Fatalf("the process ended before it said %q", want)
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// ended sends a signal, and returns an error unless the process has ended.
func (p *process) ended(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return errors.New("it still runs")
}
