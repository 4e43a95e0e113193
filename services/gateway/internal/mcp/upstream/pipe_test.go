package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/testkit"
)

// localServer is a local server of a kind, as a process of its own.
func localServer(kind string) {
	switch kind {
	case "sdk":
		_ = localSDK().Run(context.Background(), &mcp.StdioTransport{})
	case "garbage":
		fmt.Println("Welcome to my server!")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "long line":
		for {
			if _, err := io.WriteString(os.Stdout, strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	case "errors":
		for range 10_000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("e", 2000))
		}
		_ = localSDK().Run(context.Background(), &mcp.StdioTransport{})
	case "ends":
		os.Exit(3)
	case "deaf": // Neither reads nor ends.
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		silent, keep, _ := os.Pipe()
		_, _ = io.Copy(io.Discard, silent)
		_ = keep.Close()
	case "legacy":
		legacyLocal()
	case "asks":
		askingLocal()
	}
}

// localSDK is a server of the SDK. Its tool "child" starts a process that would outlive it.
func localSDK() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "local", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	text := func(text string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(string(r.Params.Arguments))
	})
	s.AddTool(&mcp.Tool{Name: "environment", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		dir, _ := os.Getwd()
		return text(dir + "\n" + strings.Join(os.Environ(), "\n"))
	})
	s.AddTool(&mcp.Tool{Name: "exit", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		os.Exit(1)
		return nil, nil
	})
	s.AddTool(&mcp.Tool{Name: "progress", InputSchema: schema}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
		if err != nil {
			return nil, err
		}
		return text("")
	})
	s.AddTool(&mcp.Tool{Name: "child", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		child := exec.Command("/bin/sh", "-c", "trap '' TERM; while :; do read x || sleep 1; done")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			return nil, err
		}
		return text(strconv.Itoa(child.Process.Pid))
	})
	return s
}

// legacyLocal leaves what it doesn't know unanswered, and asks things.
func legacyLocal() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m asked
		_ = json.Unmarshal(lines.Bytes(), &m)
		switch m.Method {
		case wire.MethodInitialize:
			fmt.Println(response(m, `"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`))
		case wire.MethodCallTool:
			fmt.Println(`{"jsonrpc":"2.0","id":"q","method":"ping"}`)
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			lines.Scan()
			quoted, _ := json.Marshal(lines.Text())
			fmt.Println(response(m, `"result":{"content":[{"type":"text","text":`+string(quoted)+`}]}`))
		}
	}
}

// local returns a client of a local server, and its registration.
func local(t *testing.T, kind string, change func(*upstream.Options)) (*toolserver.Server, *upstream.Client) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := upstream.Options{Log: testkit.Logger(t), Commands: func(name string) (upstream.Command, bool) {
		return upstream.Command{Argv: []string{program, "local-server", kind}, Env: []string{"TOOL_TOKEN", "TOOL_ABSENT"}}, name == "local"
	}}
	if change != nil {
		change(&o)
	}
	return &toolserver.Server{Organization: "org_a", ID: "tools", Command: "local", Version: 1, Timeout: 20 * time.Second}, client(t, o)
}

// text returns the text of a result.
func text(t *testing.T, result upstream.Result, err error) string {
	t.Helper()
	var body struct{ Content []struct{ Text string } }
	if err == nil {
		err = json.Unmarshal(result.Text, &body)
	}
	if err != nil || len(body.Content) != 1 {
		t.Fatalf("%s, %v", result.Text, err)
	}
	return body.Content[0].Text
}

func TestLocalCommand(t *testing.T) {
	t.Setenv("TOOL_TOKEN", "t0ken")
	t.Setenv("GATEWAY_SECRET", "hidden")
	server, c := local(t, "sdk", nil)
	listing, err := c.List(t.Context(), server)
	if err != nil || len(listing.Tools) != 5 || listing.Version != wire.Modern || listing.Name != "local" {
		t.Fatalf("%+v, %v", listing, err)
	}
	result, err := c.Call(t.Context(), server, &upstream.Call{
		Tool: "echo", Arguments: json.RawMessage(`{"a":"b\nc"}`), Meta: map[string]json.RawMessage{"x.example/a": json.RawMessage("{\n}")},
	})
	if got := text(t, result, err); got != `{"a":"b\nc"}` {
		t.Errorf("echo: %s", got)
	}
	result, err = c.Call(t.Context(), server, &upstream.Call{Tool: "environment"})
	if got := text(t, result, err); got != "/\nPATH=/usr/local/bin:/usr/bin:/bin\nTOOL_TOKEN=t0ken" {
		t.Errorf("environment: %s", got)
	}
	var progress []upstream.Progress
	if _, err := c.Call(t.Context(), server, &upstream.Call{Tool: "progress", Progress: func(p upstream.Progress) { progress = append(progress, p) }}); err != nil || len(progress) != 1 {
		t.Errorf("progress: %v, %v", progress, err)
	}
}

// A command that ends during a call may have run the tool; the next call starts it anew.
func TestLocalCommandThatEnds(t *testing.T) {
	server, c := local(t, "sdk", nil)
	_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "exit"})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseUnreachable || !e.Sent {
		t.Fatalf("%+v", err)
	}
	testkit.Wait(t, "the restart", func() error {
		_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "echo"})
		if e, ok := errors.AsType[*upstream.Error](err); ok && (e.Sent || e.RetryAfter > 30*time.Second) {
			t.Fatalf("%+v", err)
		}
		return err
	})
}

func TestHostileLocalCommands(t *testing.T) {
	for kind, cause := range map[string]upstream.Cause{
		"garbage": upstream.CauseUnreachable, "long line": upstream.CauseUnreachable, "ends": upstream.CauseUnreachable, "deaf": upstream.CauseTimeout,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, c := local(t, kind, nil)
			if server.Timeout = 5 * time.Minute; cause == upstream.CauseTimeout {
				server.Timeout = 2 * time.Second
			}
			_, err := c.Call(t.Context(), server, &upstream.Call{Tool: "echo"})
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok || e.Cause != cause && e.Cause != upstream.CauseCommand || e.Sent {
				t.Fatalf("%+v", err)
			}
		})
	}
}

// What a command writes to its error output is read and bounded, and holds nothing up.
func TestLocalCommandWithErrors(t *testing.T) {
	var log testkit.Buffer
	server, c := local(t, "errors", func(o *upstream.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	result, err := c.Call(t.Context(), server, &upstream.Call{Tool: "echo"})
	if got := text(t, result, err); got != "{}" {
		t.Error(got)
	}
	if n := strings.Count(log.String(), "a local command writes"); n == 0 || n > 200 {
		t.Errorf("%d lines in the log", n)
	}
}

// A legacy server may leave the question for its version unanswered, and may ask things itself.
func TestLegacyLocalCommand(t *testing.T) {
	var changed atomic.Int32
	server, c := local(t, "legacy", func(o *upstream.Options) { o.Changed = func(toolserver.Key) { changed.Add(1) } })
	result, err := c.Call(t.Context(), server, &upstream.Call{Tool: "echo"})
	if got := text(t, result, err); got != `{"jsonrpc":"2.0","id":"q","result":{}}` || result.Version != wire.Legacy20250326 {
		t.Errorf("%s in %s", got, result.Version)
	}
	if changed.Load() != 1 {
		t.Errorf("%d changes", changed.Load())
	}
}

// The end of the client ends a command with all that it has started.
func TestLocalCommandsEndWithTheClient(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := upstream.New(upstream.Options{Commands: func(string) (upstream.Command, bool) {
		return upstream.Command{Argv: []string{program, "local-server", "sdk"}}, true
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	server := &toolserver.Server{ID: "tools", Command: "local"}
	pid := ""
	testkit.Wait(t, "the start", func() error {
		result, err := c.Call(t.Context(), server, &upstream.Call{Tool: "child"})
		if err == nil {
			pid = text(t, result, err)
		}
		return err
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	testkit.Wait(t, "the end of the child", func() error {
		state, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err == nil && !strings.Contains(string(state), ") Z ") {
			return fmt.Errorf("it still runs: %s", state)
		}
		return nil
	})
	_, err = c.Call(t.Context(), server, &upstream.Call{Tool: "echo"})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseCommand || e.Sent {
		t.Errorf("a call after the end: %+v", err)
	}
	c.Close()
}

// Only commands that the operator allows are run.
func TestCommandsThatAreNotAllowed(t *testing.T) {
	for name, o := range map[string]upstream.Options{
		"no commands":     {},
		"another command": {Commands: func(string) (upstream.Command, bool) { return upstream.Command{}, false }},
		"a relative path": {Commands: func(string) (upstream.Command, bool) { return upstream.Command{Argv: []string{"sh"}}, true }},
		"no program":      {Commands: func(string) (upstream.Command, bool) { return upstream.Command{Argv: []string{"/nowhere/tool"}}, true }},
	} {
		_, err := client(t, o).Call(t.Context(), &toolserver.Server{ID: "a", Command: "local"}, &upstream.Call{Tool: "a"})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Cause != upstream.CauseCommand || e.Sent {
			t.Errorf("%s: %+v", name, err)
		}
	}
}
