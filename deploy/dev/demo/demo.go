// Package demo shows what the services do: it writes the settings with which a running stack can be reached and the
// commands to paste, and it runs the main jobs against the stack and prints the results.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// show is one run of the demo.
type show struct {
	*Screen

	env      Env
	http     *http.Client
	expected map[string]int64 // calls made, by the metric that counts them
}

// job is one step of the demo. It prints as it goes and returns an error when a result isn't as expected.
type job struct {
	title, route string
	run          func(*show, context.Context) error
}

var jobs = []job{
	{"A question to a model", "POST /product/v1/ai/chat", (*show).chat},
	{"The answer as a stream", "POST /product/v1/ai/chat, stream", (*show).stream},
	{"A signed webhook", "POST /product/v1/webhooks/deliveries", (*show).deliver},
	{"A notification by four channels", "POST /product/v1/notifications/send", (*show).notify},
	{"A call of a tool that a person approves", "POST /product/v1/mcp", (*show).approve},
}

var errNotRight = errors.New("not everything came back right")

// Run does the main jobs against the running stack whose state folder is given. Its error is nil only when every job
// succeeded.
func Run(ctx context.Context, screen *Screen, state string) error {
	env, err := ReadEnv(EnvFile(state))
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("there is no stack to show: start one with `make run` in another terminal")
	}
	if err != nil {
		return err
	}
	transport := &http.Transport{} // its own and without a proxy: the stack is on this machine
	defer transport.CloseIdleConnections()
	s := &show{
		Screen:   screen,
		env:      env,
		http:     &http.Client{Transport: transport},
		expected: map[string]int64{},
	}
	return s.all(ctx)
}

func (s *show) all(ctx context.Context) error {
	begun := time.Now()
	before, err := s.usage(ctx)
	if err != nil {
		return fmt.Errorf("read the counters at %s: %w", s.env.EdgeURL, err)
	}
	s.Line("%s  organization %s, edge %s", s.Strong("Switchyard"), s.env.OrganizationID, s.env.EdgeURL)
	wrong := 0
	for i, j := range jobs {
		s.Head(fmt.Sprintf("%d. %s", i+1, j.title), j.route)
		wrong += s.verdict(j.run(s, ctx))
	}
	s.Head(fmt.Sprintf("%d. What is billed", len(jobs)+1), "GET /admin/v1/usage")
	wrong += s.verdict(s.bill(ctx, before))

	s.Line("")
	if wrong > 0 {
		return fmt.Errorf("%w: %d of %d", errNotRight, wrong, len(jobs)+1)
	}
	s.Good("everything came back right, in %s", span(time.Since(begun)))
	return nil
}

func (s *show) verdict(err error) (wrong int) {
	if err == nil {
		return 0
	}
	s.Bad("%v", err)
	return 1
}
