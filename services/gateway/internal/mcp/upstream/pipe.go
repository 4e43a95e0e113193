package upstream

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// pipeLink reaches a local command, and starts it when it is needed.
type pipeLink struct {
	commands *commands
	name     string
	changed  func()

	mu      sync.Mutex
	process *process // nil for none; may have ended
}

// probeTime bounds the question which version the server speaks.
func (*pipeLink) probeTime() time.Duration { return pipeProbeTime }

// current returns the process for a session. A session ends with its process; one that begins starts a process.
func (l *pipeLink) current(s *session, begins bool) (*process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.process; p != nil {
		select {
		case <-p.done:
		default:
			if !begins && s.id != p.id {
				return nil, errEnded
			}
			return p, nil
		}
	}
	if !begins {
		return nil, errEnded
	}
	var err error
	l.process, err = l.commands.start(l.name, l.changed)
	return l.process, err
}

// send implements link.
func (l *pipeLink) send(ctx context.Context, s *session, r *request, talk *conversation) (response, error) {
	p, err := l.current(s, r.method == wire.MethodDiscover && s.id == "" || r.method == wire.MethodInitialize)
	if err != nil {
		return response{}, err
	}
	id := r.number()
	waiter := p.expect(id, talk.asks.Answer != nil && !s.modern)
	defer p.release(id)
	talk.reply = func(ctx context.Context, m *wire.Message) error { return p.write(ctx, m.Append(nil)) }
	if err := p.write(ctx, r.body()); err != nil {
		return response{}, failed(ctx, err, false)
	}
	hold := memory.FromContext(ctx)
	for {
		var got incoming
		select {
		case got = <-waiter:
		case <-ctx.Done():
			return response{}, failed(ctx, ctx.Err(), true)
		case <-p.done:
			select {
			case got = <-waiter:
			default:
				return response{}, &Error{Cause: CauseUnreachable, Text: "the local command ended before its answer", Sent: true}
			}
		}
		if err := hold.Charge(got.size); err != nil {
			return response{}, failed(ctx, err, true)
		}
		done, err := talk.receive(ctx, &got.message)
		switch {
		case err != nil:
			return response{}, failed(ctx, err, true)
		case done:
			return response{result: got.message.Result, err: got.message.Error, session: p.id}, nil
		}
	}
}

// notify implements link.
func (l *pipeLink) notify(ctx context.Context, s *session, n *request) error {
	p, err := l.current(s, false)
	if err == nil {
		err = p.write(ctx, n.body())
	}
	if err != nil {
		return failed(ctx, err, false)
	}
	return nil
}

// end implements link: the session ends with the process.
func (*pipeLink) end(context.Context, *session) {}

// cancelsByNotice implements link.
func (*pipeLink) cancelsByNotice(*session) bool { return true }

// close implements link.
func (l *pipeLink) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process != nil {
		l.process.stop()
	}
}
