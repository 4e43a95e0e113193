package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/proc"
)

// notifyPlan configures a measurement of notify.
type notifyPlan struct {
	parts   []string
	devices int
	records int
	streams int
	bin     string
	keep    bool
}

// The parts of a run.
const (
	partPush    = "push"
	partFeed    = "feed"
	partStreams = "streams"
)

func parseNotify(args []string) (notifyPlan, error) {
	plan := notifyPlan{parts: []string{partPush, partFeed, partStreams}}
	set := flag.NewFlagSet("load notify", flag.ContinueOnError)
	set.Func("parts", "what to measure: push,feed,streams", func(text string) error {
		all := plan.parts
		plan.parts = strings.Split(text, ",")
		for _, part := range plan.parts {
			if !slices.Contains(all, part) {
				return fmt.Errorf("no part %q", part)
			}
		}
		return nil
	})
	set.IntVar(&plan.devices, "devices", 100_000, "devices of a broadcast")
	set.IntVar(&plan.records, "records", 1_000_000, "records of the inbox that is paged through, a hundred a page")
	set.IntVar(&plan.streams, "streams", 10_000, "inbox streams that are held open")
	set.StringVar(&plan.bin, "bin", "", "folder with all binaries; builds them by default")
	set.BoolVar(&plan.keep, "keep", false, "keep the report in deploy/load/results")
	return plan, set.Parse(args)
}

// notifyRig is a rig with notify in it.
type notifyRig struct {
	*rig

	http *http.Client
}

func runNotify(ctx context.Context, args []string) (err error) {
	plan, err := parseNotify(args)
	if err != nil {
		return err
	}
	open, err := openRig(ctx, stack.Notify, "NOTIFY_ALLOW_TARGETS", stack.Options{WebPush: true, Bin: plan.bin}, "-push")
	if err != nil {
		return err
	}
	r := &notifyRig{open, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: registrars}}}
	defer func() { err = errors.Join(err, r.close(context.WithoutCancel(ctx))) }()
	report, err := r.measure(ctx, plan)
	fmt.Print(report)
	if err == nil && plan.keep {
		return keep("notify", report)
	}
	return err
}

func (r *notifyRig) measure(ctx context.Context, plan notifyPlan) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, one replica, Postgres with fsync on the same machine\n", machine())
	for _, part := range plan.parts {
		var err error
		switch part {
		case partPush:
			err = r.measurePush(ctx, plan.devices, &out)
		case partFeed:
			err = r.measureFeed(ctx, plan.records, &out)
		case partStreams:
			err = r.measureStreams(ctx, plan.streams, &out)
		}
		if err != nil {
			return out.String(), fmt.Errorf("%s: %w", part, err)
		}
	}
	return out.String(), nil
}

// call makes a request to notify and reads its answer into a value.
func (r *notifyRig) call(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var content io.Reader = http.NoBody
	if body != nil {
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.stack.URL(string(stack.Notify))+path, content)
	if err != nil {
		return err
	}
	request.Header = r.header()
	answer, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	switch {
	case answer.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%s %s: %w: %.200s", method, path, errAway, got)
	case answer.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: status %d: %.200s", method, path, answer.StatusCode, got)
	}
	return json.Unmarshal(got, into)
}

// errAway marks an answer after which the call should be repeated.
var errAway = errors.New("away for the moment")

// callRetrying repeats a call for up to ten seconds, as a caller should: on a busy machine a connection to the store
// may come too late. The call must be one that may be repeated.
func (r *notifyRig) callRetrying(ctx context.Context, method, path string, body, into any) error {
	const pause, times = 500 * time.Millisecond, 20
	for n := 0; ; n++ {
		err := r.call(ctx, method, path, body, into)
		if !errors.Is(err, errAway) || n == times {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (r *notifyRig) header() http.Header {
	return http.Header{
		"Authorization": {"Bearer " + r.stack.Secrets().Service}, "X-Organization-Id": {stack.Organization}, "Content-Type": {"application/json"},
	}
}

// rss returns notify's memory in MiB.
func (r *notifyRig) rss() (float64, error) {
	bytes, err := proc.RSS(r.service)
	return float64(bytes) / (1 << 20), err
}
