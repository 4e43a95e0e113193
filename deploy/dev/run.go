package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/demo"
	"switchyard.dev/deploy/dev/stack"
)

// stopTimeout is longer than the longest drain: the edge's, then that of the services behind it.
const stopTimeout = 75 * time.Second

func screen() *demo.Screen { return demo.NewScreen(os.Stdout, os.Getenv) }

func runDemo(ctx context.Context) error {
	root, err := stack.FindRoot()
	if err != nil {
		return err
	}
	return demo.Run(ctx, screen(), filepath.Join(root, ".local"))
}

var errStoreEnded = errors.New("stopped because a store ended; start it again with the same command, the data is kept")

// runStack runs the stack until ctx ends, or a store does. Without a folder of programs it builds them.
func runStack(ctx context.Context, programs string) error {
	out := screen()
	started := time.Now()
	s, err := stack.Start(ctx, stack.Options{
		Fixed:       true,
		Durable:     true,
		Bin:         programs,
		DatabaseURL: os.Getenv("SWITCHYARD_DATABASE_URL"),
		RedisURL:    os.Getenv("SWITCHYARD_REDIS_URL"),
		Fakes:       []stack.Fake{stack.FakeProvider, stack.FakeWebhook, stack.FakeSlack, stack.FakePush, stack.FakeSMTP, stack.FakeMailbox, stack.FakeBilling, stack.FakeTools},
		FakeArgs:    []string{"--verbose"},
		WebPush:     true,
		ToolRules:   stack.ToolRules,
		BuildFlags:  buildFlags(os.Getenv),
		Progress:    func(line string) { out.Line("%s", line) },
	})
	if err != nil && ctx.Err() != nil {
		return errors.New("stopped before everything was up")
	}
	if err != nil {
		return err
	}
	env, err := prepare(ctx, s)
	if err == nil {
		welcome(out, s, env, time.Since(started))
		if err = s.Supervise(ctx, restarts{out}); err != nil {
			out.Bad("%v", err)
			err = errStoreEnded // All of it has been shown.
		}
	}
	return errors.Join(err, drain(ctx, out, s))
}

// buildFlags leaves the libraries of clouds out, a sixth of all that is compiled, unless the gateway is to read from a
// secret manager or has an identity of a cloud.
func buildFlags(setting func(string) string) []string {
	if setting("GATEWAY_BYOK_SECRET_MANAGERS") != "" {
		return nil
	}
	for _, name := range []string{"GATEWAY_POLICY_FILE", "GATEWAY_EXTRA_PROVIDERS_FILE"} {
		text, err := os.ReadFile(setting(name))
		if err == nil && cloudIdentity.Match(text) { // A file that can't be read is the gateway's to report.
			return nil
		}
	}
	return []string{"-tags=nocloud"}
}

// cloudIdentity matches the beginning of an identity of a cloud in a policy.
var cloudIdentity = regexp.MustCompile(`\b(aws|gcp|azure)"?\s*:\s`)

// drain stops the stack in order; the next Ctrl-C kills what is left.
func drain(ctx context.Context, out *demo.Screen, s *stack.Stack) error {
	out.Line("\nStopping: requests in flight finish first (Ctrl-C again stops at once)")
	stopping, cancel := untilSignal(context.WithoutCancel(ctx))
	defer cancel()
	stopping, cancel = context.WithTimeout(stopping, stopTimeout)
	defer cancel()
	if err := s.Stop(stopping); err != nil {
		return err
	}
	out.Line("Stopped")
	return nil
}

// prepare creates the demo keys and writes the settings file.
func prepare(ctx context.Context, s *stack.Stack) (demo.Env, error) {
	path := demo.EnvFile(s.State())
	before, err := demo.ReadEnv(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		before = demo.Env{} // unreadable: it is written anew
	}
	env, err := demo.Reach(ctx, s, stack.Organization, before)
	if err != nil {
		return env, err
	}
	// The organization's own Slack URL, at the fake Slack.
	slack := filepath.Join(s.State(), "secrets", "notify-slack", stack.Organization)
	if err := os.WriteFile(slack, []byte(s.FakeURL(stack.FakeSlack)+"/services/T1/B1/demo\n"), 0o600); err != nil {
		return env, err
	}
	return env, env.Write(path)
}

// welcome prints where everything is and what to try.
func welcome(out *demo.Screen, s *stack.Stack, env demo.Env, took time.Duration) {
	out.Line("\n%s runs, after %.1f s. Ctrl-C drains and stops it.\n", out.Strong("Switchyard"), took.Seconds())
	place := func(name, address, what string) {
		out.Line("  %-18s %s%s", name, address, strings.TrimRight("   "+what, " "))
	}
	for _, service := range []stack.Service{stack.Edge, stack.Control, stack.Gateway, stack.WebhookEgress, stack.Notify} {
		grpc := s.GRPC(string(service))
		if grpc != "" {
			grpc = "gRPC " + grpc
		}
		place(string(service), s.URL(string(service)), grpc)
	}
	out.Line("\n  In a browser")
	place("operators' console", s.URL(string(stack.Control))+"/console/", "sign in with OPERATOR_TOKEN of the settings below")
	place("documents", env.EdgeURL+"/docs/", "all of them, with a search; each service's operations: its address with /docs")
	place("notify demo page", s.DemoURL(), "web push, also without a vendor, and the in-app feed in this browser")
	out.Line("\n  In place of third parties")
	place("webhook receiver", env.ReceiverURL, "what arrived: "+env.ReceiverURL+"/_arrivals")
	place("provider", s.FakeURL(stack.FakeProvider), "an OpenAI- and Anthropic-like server to point the gateway at")
	place("tool server", env.ToolServerURL, "tools for agents: deploy/examples/recipes/approve-a-tool-call.md")
	place("push service", s.FakeURL(stack.FakePush), "what arrived: "+s.FakeURL(stack.FakePush)+"/_messages")
	place("mailbox", s.FakeURL(stack.FakeMailbox), "what arrived: "+s.FakeURL(stack.FakeMailbox)+"/_messages")
	place("Slack", s.FakeURL(stack.FakeSlack), "what arrived: "+s.FakeURL(stack.FakeSlack)+"/_messages")

	envFile := demo.EnvFile(s.State())
	out.Line("\n  logs     %s", filepath.Join(s.State(), "log"))
	out.Line("  settings %s (URLs, keys and tokens); for a shell in any folder:", envFile)
	out.Line("           %s", demo.Source(envFile))
	out.Line("  recipes  every route as a curl line: deploy/examples/recipes")

	out.Line("\nThings to try from another terminal, or `make demo` for the main jobs:")
	for i, p := range demo.Pastes(env, envFile) {
		out.Head(fmt.Sprintf("%d. %s", i+1, p.Title), "")
		out.Line("%s", p.Do)
		if p.See != "" {
			out.Line("%s", p.See)
		}
	}
}

// restarts shows what becomes of members that end by themselves.
type restarts struct{ out *demo.Screen }

// Ended implements stack.Reporter. The end of the log is shown the first time only, and not for a program that was killed.
func (r restarts) Ended(exit stack.Exit, pause time.Duration, again bool) {
	r.out.Bad("%s ended by itself (%s) and is started again in %s; its log: %s", exit.Name, exit.How(), pause, exit.Log)
	if again || exit.Killed() {
		return
	}
	for line := range strings.Lines(exit.Tail) {
		r.out.Line("    %s", strings.TrimRight(line, "\n"))
	}
}

// Ready implements stack.Reporter.
func (r restarts) Ready(name string, took time.Duration, err error) {
	if err != nil {
		r.out.Bad("%s runs again and is not ready: %v", name, err)
		return
	}
	r.out.Good("%s is ready again, %d ms after its start", name, took.Milliseconds())
}
