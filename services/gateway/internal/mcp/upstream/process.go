package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

const (
	// maxLine bounds a message of a local command, in bytes.
	maxLine = 4 << 20
	// waiting bounds the messages that wait for the goroutine of a call; notices beyond it are left out.
	waiting = 64
	// A process's errors are logged up to maxErrors lines of maxError bytes.
	maxErrors = 200
	maxError  = 1 << 10
)

// process is a running local command.
type process struct {
	id      string
	cmd     *exec.Cmd
	input   *os.File
	output  *os.File
	errors  *os.File
	log     *slog.Logger
	changed func()
	// turn is full while a message is written.
	turn chan struct{}
	// done is closed when the process has ended.
	done     chan struct{}
	stopping atomic.Bool

	// drained is closed when all that the process wrote has been read.
	drained chan struct{}

	mu      sync.Mutex
	waiters map[string]waiter
	ended   bool
}

// waiter is a call under way.
type waiter struct {
	messages chan incoming
	// asks reports whether the server may ask something in the course of the call.
	asks bool
}

// incoming is a message for a call, and its size.
type incoming struct {
	message wire.Message
	size    int
}

// spawn starts a command in a process group of its own, with pipes that have deadlines.
func spawn(command Command, changed func(), log *slog.Logger) (*process, error) {
	p := &process{
		log: log, changed: changed, turn: make(chan struct{}, 1), done: make(chan struct{}), drained: make(chan struct{}),
		waiters: make(map[string]waiter),
	}
	p.cmd = exec.Command(command.Argv[0], command.Argv[1:]...) //nolint:gosec,noctx // The operator's own command; stop ends it.
	p.cmd.Env, p.cmd.Dir = environment(command.Env), or(command.Dir, "/")
	p.cmd.SysProcAttr = groupOfItsOwn()
	var theirs []*os.File
	pipe := func(ours **os.File, writes bool) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if writes {
			r, w = w, r
		}
		*ours = r
		theirs = append(theirs, w)
		return w, nil
	}
	stdin, err1 := pipe(&p.input, true)
	stdout, err2 := pipe(&p.output, false)
	stderr, err3 := pipe(&p.errors, false)
	err := errors.Join(err1, err2, err3)
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
		err = p.cmd.Start()
	}
	for _, file := range theirs {
		_ = file.Close()
	}
	if err != nil {
		p.closePipes()
		return nil, err
	}
	if err := limit(p.cmd.Process.Pid); err != nil {
		log.Warn("the limits of a local command can't be set", slog.String("error", err.Error()))
	}
	return p, nil
}

func (p *process) closePipes() {
	for _, file := range []*os.File{p.input, p.output, p.errors} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// stop ends the process: by the end of its input, or, if it doesn't heed that, by force. It doesn't wait.
func (p *process) stop() {
	if p.stopping.Swap(true) {
		return
	}
	_ = p.input.Close()
	time.AfterFunc(endTime, p.kill)
}

// stopped reports whether stop was called.
func (p *process) stopped() bool { return p.stopping.Load() }

// kill ends the process and all that it has started. It does nothing once wait has seen the end: the number may be that
// of another process by then.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		killGroup(p.cmd.Process.Pid)
	}
}

// wait waits for the end of the process, and ends what it has left running. What it has written until then is still
// read.
func (p *process) wait() {
	err := p.cmd.Wait()
	p.kill()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	rest := time.NewTimer(endTime)
	defer rest.Stop()
	select {
	case <-p.drained:
	case <-rest.C:
	}
	close(p.done)
	p.closePipes()
	p.log.Info("a local command has ended", slog.Bool("stopped", p.stopped()), slog.String("state", stateOf(p.cmd, err)))
}

func stateOf(cmd *exec.Cmd, err error) string {
	if cmd.ProcessState != nil {
		return cmd.ProcessState.String()
	}
	return err.Error()
}

// read reads the process's messages. A process that writes what is no message is ended.
func (p *process) read() error {
	defer close(p.drained)
	reader := bufio.NewReaderSize(p.output, 64<<10)
	for {
		line, err := readLine(reader, maxLine)
		if err == nil {
			err = p.dispatch(line)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !p.stopped() {
				p.log.Warn("a local command is ended", slog.String("error", err.Error()))
			}
			p.kill()
			return nil
		}
	}
}

// errLine is the error of a line that is too long.
var errLine = errors.New("a message is larger than 4 MiB")

// readLine returns the next line, of at most most bytes.
func readLine(reader *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		piece, err := reader.ReadSlice('\n')
		if len(line)+len(piece) > most {
			return nil, errLine
		}
		line = append(line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// dispatch passes a message to the call that waits for it. Late responses, and notices that no call waits for, are left
// out.
func (p *process) dispatch(line []byte) error {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	m, err := wire.Parse(line)
	if err != nil {
		return err
	}
	switch {
	case m.IsResponse():
		p.pass(string(m.ID), incoming{m, len(line)}, true)
	case m.IsRequest():
		if asksClient(m.Method) && p.passQuestion(incoming{m, len(line)}) {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
		defer cancel()
		return p.write(ctx, answerTo(&m).Append(nil))
	case m.Method == wire.MethodCancelled:
		p.passQuestion(incoming{m, len(line)})
	case m.Method == wire.MethodToolsChange:
		p.changed()
	case m.Method == wire.MethodProgress:
		wire.Members(orEmpty(m.Params), func(name string, value []byte) bool {
			if name == wire.MetaProgress {
				p.pass(string(value), incoming{m, len(line)}, false)
			}
			return true
		})
	}
	return nil
}

// pass passes a message to the call of an id. A response takes the place of a notice if there is no room.
func (p *process) pass(id string, m incoming, response bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	call, ok := p.waiters[id]
	if !ok {
		return
	}
	if response {
		delete(p.waiters, id) // A second response finds no call.
	}
	for {
		select {
		case call.messages <- m:
			return
		default:
		}
		if !response {
			return
		}
		select {
		case <-call.messages:
		default:
		}
	}
}

// passQuestion passes a request of the server, or the end of one, to the call that it belongs to. Nothing on a pipe says which one that is, so
// it must be the only one. It reports false where there is none to take it.
func (p *process) passQuestion(m incoming) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiters) != 1 {
		return false
	}
	for _, only := range p.waiters {
		if only.asks {
			select {
			case only.messages <- m:
				return true
			default:
			}
		}
	}
	return false
}

// expect registers a call.
func (p *process) expect(id json.RawMessage, asks bool) <-chan incoming {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages := make(chan incoming, waiting)
	p.waiters[string(id)] = waiter{messages, asks}
	return messages
}

// release removes a call.
func (p *process) release(id json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, string(id))
}

// write writes a message as a line. A process that doesn't read is ended, since half a line is no message.
func (p *process) write(ctx context.Context, message []byte) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return io.ErrClosedPipe
	}
	defer func() { <-p.turn }()
	// Outside of strings, and nowhere else, JSON may have line breaks.
	line := append(bytes.ReplaceAll(message, []byte{'\n'}, []byte{' '}), '\n')
	deadline, _ := ctx.Deadline()
	err := p.input.SetWriteDeadline(deadline)
	if err == nil {
		_, err = p.input.Write(line)
	}
	if err != nil {
		p.kill()
	}
	return err
}

// readErrors logs what the process writes to its error output, within bounds.
func (p *process) readErrors() error {
	reader := bufio.NewReaderSize(p.errors, maxError)
	for lines := 0; ; lines++ {
		line, err := reader.ReadSlice('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 && lines < maxErrors {
			p.log.Info("a local command writes", slog.String("line", string(bytes.ToValidUTF8(text, nil))))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil // The end of the process, which wait takes note of.
		}
	}
}
