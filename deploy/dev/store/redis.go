package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"switchyard.dev/deploy/dev/port"
	"switchyard.dev/deploy/dev/process"
)

const connectTimeout = 5 * time.Second

// redisPrograms lists the servers that speak the Redis protocol, in the order of preference.
var redisPrograms = []string{"redis-server", "valkey-server"}

func (s *Stores) startRedis(ctx context.Context, o Options) error {
	if o.RedisURL != "" {
		if err := reachRedisURL(ctx, o.RedisURL); err != nil {
			return fmt.Errorf("the Redis of SWITCHYARD_REDIS_URL can't be used: %w", err)
		}
		s.RedisURL = o.RedisURL
		o.Progress("Redis: the server of SWITCHYARD_REDIS_URL")
		return nil
	}
	number, err := choosePort(ctx, o.RedisPort)
	if err != nil {
		return err
	}
	s.RedisURL = "redis://" + port.At(number) + "/0"
	for _, program := range redisPrograms {
		if path, err := exec.LookPath(program); err == nil {
			return s.startRedisServer(ctx, o, path, number)
		}
	}
	return s.startMiniredis(o, number)
}

func (s *Stores) startRedisServer(ctx context.Context, o Options, program string, number int) error {
	dir, err := folder(o.Dir, Redis)
	if err != nil {
		return err
	}
	spec := process.Spec{
		Name:  Redis,
		Path:  program,
		Args:  []string{"-"}, // the configuration comes from standard input
		Stdin: redisConfig(dir, number, o.Durable),
		Env:   []string{"LC_ALL=C", "TZ=UTC"},
		Dir:   dir,
		Log:   filepath.Join(dir, "log"),
	}
	address := port.At(number)
	if err := s.start(ctx, spec, func(ctx context.Context) error { return reachRedis(ctx, address) }); err != nil {
		return err
	}
	o.Progress(fmt.Sprintf("Redis on %s (%s), data in %s", address, filepath.Base(program), dir))
	return nil
}

func redisConfig(dir string, number int, durable bool) string {
	lines := []string{
		"bind " + port.Loopback,
		fmt.Sprintf("port %d", number),
		"protected-mode yes",
		fmt.Sprintf("dir %q", dir),
		"daemonize no",
		`save ""`,
		"appendonly no",
	}
	if durable {
		lines[len(lines)-1] = "appendonly yes\nappendfsync everysec"
	}
	return strings.Join(lines, "\n") + "\n"
}

const tick = 100 * time.Millisecond

// startMiniredis runs Redis inside this process. Its keys expire only when its clock is advanced.
func (s *Stores) startMiniredis(o Options, number int) error {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(port.At(number)); err != nil {
		return fmt.Errorf("start the in-process Redis: %w", err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for {
			select {
			case <-clock.C:
				server.FastForward(tick)
			case <-stop:
				return
			}
		}
	}()
	s.close = append(s.close, func() error {
		close(stop)
		<-stopped
		server.Close()
		return nil
	})
	o.Progress(fmt.Sprintf("Redis on %s, in this process (miniredis): neither %s is installed, so what it holds ends with it",
		port.At(number), strings.Join(redisPrograms, " nor ")))
	return nil
}

var errRedisURL = errors.New("it isn't a URL like redis://user:password@host:port/database")

// reachRedisURL checks only that a server accepts connections: a URL may name TLS and
// passwords, which the services' own client handles.
func reachRedisURL(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		return errRedisURL
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "6379")
	}
	conn, err := dial(ctx, host)
	if err != nil {
		return err
	}
	return conn.Close()
}

// reachRedis returns nil when a Redis without a password answers and has loaded its data.
func reachRedis(ctx context.Context, address string) error {
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "+PONG" {
		return fmt.Errorf("redis answered %q", answer)
	}
	return nil
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}
