package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/proc"
)

// rig is all that runs while a service is measured that sends to a receiver what
// its database holds.
type rig struct {
	dir      string
	receiver *helper
	stack    *stack.Stack
	db       *pgx.Conn
	// service, edge and postgres are the processes whose CPU time is measured separately.
	service, edge int
	postgres      func() []int
}

// openRig starts the receiver with the arguments, and the stack. The setting named by allow lets the service send to
// the receiver.
func openRig(ctx context.Context, service stack.Service, allow string, o stack.Options, receiver ...string) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(context.WithoutCancel(ctx)))
		}
	}()
	if r.dir, err = openDir(); err != nil {
		return nil, err
	}
	if r.receiver, err = startHelper(ctx, r.dir, "receiver", receiver...); err != nil {
		return nil, err
	}
	o.State, o.Durable = r.dir+"/stack", true
	o.Env = map[stack.Service][]string{service: {allow + "=" + strings.TrimPrefix(r.receiver.url, "http://")}}
	o.Progress = func(line string) { fmt.Fprintln(os.Stderr, line) }
	if r.stack, err = stack.Start(ctx, o); err != nil {
		return nil, err
	}
	if r.db, err = pgx.Connect(ctx, r.stack.DatabaseURL()); err != nil {
		return nil, err
	}
	if r.service, err = r.stack.PID(string(service)); err != nil {
		return nil, err
	}
	if r.edge, err = r.stack.PID(string(stack.Edge)); err != nil {
		return nil, err
	}
	server, err := r.stack.PID("postgres")
	r.postgres = func() []int { return append(proc.Children(server), server) }
	return r, err
}

func (r *rig) close(ctx context.Context) error {
	var errs []error
	if r.db != nil {
		errs = append(errs, r.db.Close(ctx))
	}
	if r.stack != nil {
		errs = append(errs, r.stack.Stop(ctx))
	}
	if r.receiver != nil {
		r.receiver.Kill()
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}
