package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/deploy/dev/port"
)

// addresses holds where the members listen, by member and face.
type addresses map[string]map[face]string

func (a addresses) set(l listener, address string) {
	if a[l.member] == nil {
		a[l.member] = map[face]string{}
	}
	a[l.member][l.face] = address
}

// url returns the base URL of a member's HTTP face for a client on this machine.
func (a addresses) url(member string) string {
	if address := a.dial(member, faceHTTP); address != "" {
		return "http://" + address
	}
	return ""
}

// dial returns a member's face as host:port for a client on this machine.
func (a addresses) dial(member string, f face) string {
	address, err := port.Dialable(a[member][f])
	if err != nil {
		return "" // no such face; the plan's addresses were checked
	}
	return address
}

// fixed returns the plan for a person: each first replica listens where its setting or the documentation says,
// further ones on any free port.
func fixed(ctx context.Context, all []listener, lookup func(string) string) (addresses, error) {
	plan := addresses{}
	var firsts []listener
	seen := map[string]bool{}
	for _, l := range all {
		if seen[l.setting] {
			if err := plan.setFree(ctx, l); err != nil {
				return nil, err
			}
			continue
		}
		seen[l.setting] = true
		address := lookup(l.setting)
		if address == "" {
			address = port.At(l.port)
		}
		if _, err := port.Dialable(address); err != nil {
			return nil, fmt.Errorf("%s: %w", l.setting, err)
		}
		plan.set(l, address)
		firsts = append(firsts, l)
	}
	return plan, check(ctx, plan, firsts)
}

// free returns the plan for a test: every member and both stores on unused ports.
func free(ctx context.Context, all []listener) (addresses, storePorts, error) {
	const stores = 2
	ports, err := port.Free(ctx, stores+len(all))
	if err != nil {
		return nil, storePorts{}, err
	}
	plan := addresses{}
	for i, l := range all {
		plan.set(l, port.At(ports[stores+i]))
	}
	return plan, storePorts{ports[0], ports[1]}, nil
}

func (a addresses) setFree(ctx context.Context, l listener) error {
	ports, err := port.Free(ctx, 1)
	if err == nil {
		a.set(l, port.At(ports[0]))
	}
	return err
}

// check finds every address that can't be listened on, before anything is started, and returns one error that says
// what to do.
func check(ctx context.Context, plan addresses, all []listener) error {
	var taken, remedy []string
	owner := map[string]string{}
	for _, l := range all {
		address := plan[l.member][l.face]
		if other, twice := owner[address]; twice {
			return fmt.Errorf("%s and %s are both %s", other, l.setting, address)
		}
		owner[address] = l.setting
		err := port.Check(ctx, address)
		switch {
		case err == nil:
		case errors.Is(err, port.ErrTaken):
			taken = append(taken, fmt.Sprintf("%s (%s)", address, l.member))
			remedy = append(remedy, l.setting+"="+elsewhere(ctx, l))
		default:
			return fmt.Errorf("%s=%s can't be listened on: %w", l.setting, address, err)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	noun := "port"
	if len(taken) > 1 {
		noun = "ports"
	}
	return fmt.Errorf("%s taken: %s. Stop what listens there, or choose otherwise: %s",
		noun, strings.Join(taken, ", "), strings.Join(remedy, " "))
}

// elsewhere returns a free address whose port resembles the usual one.
func elsewhere(ctx context.Context, l listener) string {
	const away = 10000
	number, err := port.From(ctx, l.port+away)
	if err != nil {
		number = l.port + away
	}
	return port.At(number)
}
