package store

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"switchyard.dev/deploy/dev/devtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const waitTimeout = 30 * time.Second

// startStores starts servers that the test may stop itself.
func startStores(t *testing.T, o Options) *Stores {
	t.Helper()
	o.Progress = func(line string) { t.Log(line) }
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { devtest.Stop(t, waitTimeout, s.Stop) })
	return s
}

func temporary(t *testing.T) string {
	t.Helper()
	dir, err := Temporary()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func needsPostgres(t *testing.T) {
	t.Helper()
	if len(find(t.Context())) == 0 {
		t.Skip("Postgres isn't installed")
	}
}

func query(t *testing.T, address, statement string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var answer string
	if err := conn.QueryRow(t.Context(), statement).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

// redisDo sends one command, with its words separated by spaces, and returns the given number of lines of the answer.
func redisDo(t *testing.T, address, command string, lines int) []string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	words := strings.Fields(command)
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	var answer []string
	for range lines {
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		answer = append(answer, strings.TrimSpace(line))
	}
	return answer
}

func TestDurableStoresKeepTheirData(t *testing.T) {
	needsPostgres(t)
	o := Options{Dir: temporary(t), Cache: t.TempDir(), Durable: true}
	s := startStores(t, o)
	if got := query(t, s.DatabaseURL, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s", got)
	}
	execute(t, s.DatabaseURL, "CREATE TABLE kept (word text)", "INSERT INTO kept VALUES ('still here')")
	redisDo(t, s.RedisURL, "SET kept yes", 1)
	names := map[string]bool{}
	for _, m := range s.Members() {
		names[m.Name()] = true
	}
	devtest.Stop(t, waitTimeout, s.Stop)

	again := startStores(t, o)
	if got := query(t, again.DatabaseURL, "SELECT word FROM kept"); got != "still here" {
		t.Errorf("after a second start: %q", got)
	}
	if !names[Redis] {
		return // miniredis runs in this process and keeps no data, as its progress line says
	}
	if got := redisDo(t, again.RedisURL, "GET kept", 2); got[1] != "yes" {
		t.Errorf("Redis kept %q", got)
	}
}

func execute(t *testing.T, address string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func TestAKilledPostgresComesBack(t *testing.T) {
	needsPostgres(t)
	s := startStores(t, Options{Dir: temporary(t), Cache: t.TempDir()})
	if got := query(t, s.DatabaseURL, "SHOW fsync"); got != "off" {
		t.Errorf("fsync is %s", got)
	}
	execute(t, s.DatabaseURL, "CREATE TABLE kept (word text)", "INSERT INTO kept VALUES ('still here')")
	postgres := s.Members()[0]
	postgres.Kill()
	if err := postgres.Ready(t.Context()); err == nil {
		t.Fatal("a killed Postgres answers")
	}
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Await(t.Context(), waitTimeout, postgres.Ready); err != nil {
		t.Fatal(err)
	}
	if got := query(t, s.DatabaseURL, "SELECT word FROM kept"); got != "still here" {
		t.Errorf("after the restart: %q", got)
	}
}

func TestPostgresWantsThePassword(t *testing.T) {
	needsPostgres(t)
	s := startStores(t, Options{Dir: temporary(t), Cache: t.TempDir()})
	u, err := url.Parse(s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	u.User = url.UserPassword(administrator, "guess")
	err = reachDatabase(t.Context(), u.String())
	if err == nil {
		t.Error("any password does")
	} else if strings.Contains(err.Error(), "guess") {
		t.Errorf("the error holds the password: %v", err)
	}
	for _, m := range s.Members() {
		text, err := os.ReadFile(m.Log())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), password) {
			t.Errorf("%s holds the password", m.Log())
		}
	}
}

func TestASecondPostgresOnTheSameDataIsRefused(t *testing.T) {
	needsPostgres(t)
	o := Options{Dir: temporary(t), Cache: t.TempDir(), Durable: true}
	startStores(t, o)
	s, err := Start(t.Context(), o)
	if err == nil {
		devtest.Stop(t, waitTimeout, s.Stop)
		t.Fatal("two servers on the same data")
	}
	if !strings.Contains(err.Error(), "another Postgres (process ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %q, want one clear line", err)
	}
}

func TestServersInTheOptionsAreUsed(t *testing.T) {
	needsPostgres(t)
	running := startStores(t, Options{Dir: temporary(t), Cache: t.TempDir()})
	s := startStores(t, Options{
		Dir:         filepath.Join(t.TempDir(), "never"),
		DatabaseURL: running.DatabaseURL,
		RedisURL:    running.RedisURL,
	})
	if s.DatabaseURL != running.DatabaseURL || s.RedisURL != running.RedisURL {
		t.Error("servers other than those in the options are used")
	}
	if len(s.Members()) != 0 {
		t.Errorf("%d servers were started", len(s.Members()))
	}
}

func TestAServerThatCannotBeReached(t *testing.T) {
	tests := []struct {
		name  string
		o     Options
		wants string
	}{
		{"no URL of Postgres", Options{DatabaseURL: "postgres://u:hunter2hunter2@%zz/"}, "SWITCHYARD_DATABASE_URL"},
		{"no server at the address", Options{DatabaseURL: "postgres://u:hunter2hunter2@127.0.0.1:1/db"}, "SWITCHYARD_DATABASE_URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Dir = t.TempDir()
			_, err := Start(t.Context(), tt.o)
			if err == nil {
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("%q doesn't name the setting", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q holds the password", err)
			}
		})
	}
}

func TestWithoutARedisProgramItRunsInProcess(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var said []string
	s := &Stores{}
	o := Options{Dir: t.TempDir(), Progress: func(line string) { said = append(said, line) }}
	if err := s.startRedis(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { devtest.Stop(t, waitTimeout, s.Stop) })
	if len(said) != 1 || !strings.Contains(said[0], "in this process") {
		t.Errorf("progress %q, want one line that names this process", said)
	}
	if len(s.Members()) != 0 {
		t.Error("it counts as a process")
	}
	redisDo(t, s.RedisURL, "SET gone soon PX 1", 1)
	deadline := time.Now().Add(waitTimeout)
	for redisDo(t, s.RedisURL, "EXISTS gone", 1)[0] != ":0" {
		if time.Now().After(deadline) {
			t.Fatal("a key outlived its time")
		}
	}
}

func TestRedisConfig(t *testing.T) {
	durable, throwaway := redisConfig("/a b", 7000, true), redisConfig("/a b", 7000, false)
	for _, want := range []string{"bind 127.0.0.1\n", "port 7000\n", "dir \"/a b\"\n", "appendonly yes\n"} {
		if !strings.Contains(durable, want) {
			t.Errorf("%q lacks %q", durable, want)
		}
	}
	if !strings.Contains(throwaway, "appendonly no\n") {
		t.Errorf("throwaway: %q", throwaway)
	}
}

func TestWithoutPostgresOneLineSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(repositoryEnv, "http://127.0.0.1:1")
	kept := installed
	installed = nil
	t.Cleanup(func() { installed = kept })

	dir := temporary(t)
	_, err := Start(t.Context(), Options{Dir: dir, Cache: filepath.Join(dir, "cache")})
	if err == nil {
		t.Fatal("started without a Postgres")
	}
	for _, want := range []string{"no Postgres is installed", "apt-get install postgresql", "SWITCHYARD_DATABASE_URL"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}
