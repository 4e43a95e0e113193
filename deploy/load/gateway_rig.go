package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"switchyard.dev/deploy/dev/stack"
)

// gatewayRig is all that runs while the gateway is measured.
type gatewayRig struct {
	dir           string
	vendor, relay *helper
	// front relays to relay.
	front *helper
	// stacks holds a stack for each wanted mode of the ledger, by the mode's name.
	stacks map[string]*stack.Stack
}

// open starts the provider, the relays, and a stack for each mode. After an error, close ends what was started.
func (r *gatewayRig) open(ctx context.Context, plan gatewayPlan) (err error) {
	if r.dir, err = openDir(); err != nil {
		return err
	}
	paced := []string{"-pieces", strconv.Itoa(plan.pieces), "-pause", plan.pause.String()}
	if r.vendor, err = startHelper(ctx, r.dir, "provider", paced...); err != nil {
		return err
	}
	if r.relay, err = startHelper(ctx, r.dir, "relay", "-relay", r.vendor.url); err != nil {
		return err
	}
	if r.front, err = startHelper(ctx, r.dir, "front", "-relay", r.relay.url); err != nil {
		return err
	}
	providers := filepath.Join(r.dir, "providers.json")
	text := fmt.Sprintf(`{"providers":[{"name":"load","dialect":"openai","base_url":"%s/v1","models":[
		{"name":"load","input_per_mtok_usd":"1","output_per_mtok_usd":"2"},
		{"name":"burst","input_per_mtok_usd":"1","output_per_mtok_usd":"2"}]}]}`, r.vendor.url)
	if err = os.WriteFile(providers, []byte(text), 0o600); err != nil {
		return err
	}
	for _, mode := range modes {
		if !plan.wantsMode(mode) {
			continue
		}
		if r.stacks[mode], err = startMode(ctx, plan, filepath.Join(r.dir, mode), mode, providers); err != nil {
			return err
		}
	}
	return nil
}

// startMode starts a stack whose gateway has a ledger mode and the providers of a file.
func startMode(ctx context.Context, plan gatewayPlan, state, mode, providers string) (*stack.Stack, error) {
	options := stack.Options{
		State: state, Bin: plan.bin, Durable: true, BuildFlags: slices.Concat(asShipped, plan.build),
		Env: map[stack.Service][]string{
			stack.Gateway: {"GATEWAY_EXTRA_PROVIDERS_FILE=" + providers, "GATEWAY_LEDGER_MODE=" + mode},
		},
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	}
	if plan.exports {
		options.Fakes = []stack.Fake{stack.FakeBilling}
	}
	return stack.Start(ctx, options)
}

func (r *gatewayRig) close(ctx context.Context) error {
	var errs []error
	for _, s := range r.stacks {
		if s != nil {
			errs = append(errs, s.Stop(ctx))
		}
	}
	for _, h := range []*helper{r.front, r.relay, r.vendor} {
		if h != nil {
			h.Kill()
		}
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}
