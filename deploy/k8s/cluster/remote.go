package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Programs are the names of the programs that the cluster stands in for.
var Programs = []string{"kubectl", "helm"}

// addressFile is beside the programs, and says where their cluster takes calls.
const addressFile = ".cluster"

// part is a piece of what a call prints; the last one ends it.
type part struct {
	Out    string
	Ended  bool
	Failed string
}

// Install makes the programs in a folder: names of this program itself, which hands their calls over by [Call]. The
// cluster takes them until it stops.
func (c *Cluster) Install(ctx context.Context, folder string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	listener, err := listen(ctx)
	if err != nil {
		return err
	}
	for _, name := range Programs {
		if err := os.Symlink(self, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	server := &http.Server{
		Handler: http.HandlerFunc(c.answer), ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return c.running },
	}
	c.group.Go(func() error {
		stop := context.AfterFunc(c.running, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return os.WriteFile(filepath.Join(folder, addressFile), []byte("http://"+listener.Addr().String()), 0o600)
}

// answer takes a call and streams what it prints.
func (c *Cluster) answer(w http.ResponseWriter, r *http.Request) {
	var request Request
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &stream{encoder: json.NewEncoder(w), flush: http.NewResponseController(w).Flush}
	run := c.Kubectl
	if request.Program == "helm" {
		run = c.Helm
	}
	end := part{Ended: true}
	if err := run(r.Context(), request, out); err != nil {
		end.Failed = err.Error()
	}
	_ = out.send(end) // a caller that has gone needs it no longer
}

// stream sends what is written to it to the caller at once.
type stream struct {
	mu      sync.Mutex
	encoder *json.Encoder
	flush   func() error
}

func (s *stream) Write(text []byte) (int, error) {
	return len(text), s.send(part{Out: string(text)})
}

func (s *stream) send(p part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.encoder.Encode(p), s.flush())
}

// Called returns the name by which this program was called, when it is one that a cluster stands in for; otherwise "".
func Called() string {
	if name := filepath.Base(os.Args[0]); slices.Contains(Programs, name) {
		return name
	}
	return ""
}

// Call hands a call of this program, as one of Programs, over to its cluster. It returns the exit status.
func Call(ctx context.Context, name string) int {
	failed, err := handOver(ctx, Request{Program: name, Args: os.Args[1:]})
	if err != nil {
		failed = name + ": " + err.Error()
	}
	if failed == "" {
		return 0
	}
	fmt.Fprintln(os.Stderr, failed)
	return 1
}

// handOver makes the call, prints what it prints, and returns why it failed.
func handOver(ctx context.Context, r Request) (failed string, err error) {
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		return "", err
	}
	address, err := os.ReadFile(filepath.Join(filepath.Dir(program), addressFile))
	if err != nil {
		return "", err
	}
	if r.Dir, err = os.Getwd(); err != nil {
		return "", err
	}
	if slices.Contains(r.Args, "-") {
		if r.Input, err = io.ReadAll(os.Stdin); err != nil {
			return "", err
		}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, string(address), bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	for decoder := json.NewDecoder(response.Body); ; {
		var p part
		if err := decoder.Decode(&p); err != nil {
			return "", fmt.Errorf("the cluster ended: %w", err)
		}
		if _, err := io.WriteString(os.Stdout, p.Out); err != nil {
			return "", err
		}
		if p.Ended {
			return p.Failed, nil
		}
	}
}
