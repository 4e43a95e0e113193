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
	// service and postgres are the processes whose CPU time is measured separately.
	service  int
	postgres func() []int
}

// openRig starts the receiver with the arguments, and the stack. The setting named by allow lets the service send to
// the receiver.
func openRig(ctx context.Context, service stack.Service, allow string, o stack.Options, receiver ...string) (_ *rig, err error) {
	y := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.close(context.WithoutCancel(ctx)))
		}
	}()
	if y.dir, err = openDir(); err != nil {
		return nil, err
	}
	if y.receiver, err = startHelper(ctx, y.dir, "receiver", receiver...); err != nil {
		return nil, err
	}
	o.State, o.Durable = y.dir+"/stack", true
	o.Env = map[stack.Service][]string{service: {allow + "=" + strings.TrimPrefix(y.receiver.url, "http://")}}
	o.Progress = func(line string) { fmt.Fprintln(os.Stderr, line) }
	if y.stack, err = stack.Start(ctx, o); err != nil {
		return nil, err
	}
	if y.db, err = pgx.Connect(ctx, y.stack.DatabaseURL()); err != nil {
		return nil, err
	}
	if y.service, err = y.stack.PID(string(service)); err != nil {
		return nil, err
	}
	server, err := y.stack.PID("postgres")
	y.postgres = func() []int { return append(proc.Children(server), server) }
	return y, err
}

func (y *rig) close(ctx context.Context) error {
	var errs []error
	if y.db != nil {
		errs = append(errs, y.db.Close(ctx))
	}
	if y.stack != nil {
		errs = append(errs, y.stack.Stop(ctx))
	}
	if y.receiver != nil {
		y.receiver.Kill()
	}
	return errors.Join(append(errs, os.RemoveAll(y.dir))...)
}
