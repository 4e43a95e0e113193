package stack

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/deploy/dev/devtest"
	"switchyard.dev/deploy/dev/store"
)

// TestMain runs the test's binary in place of the programs of a stack: the tests link it under their names.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	switch {
	case slices.Contains(Services, Service(name)):
		os.Exit(serviceMain(Service(name), os.Args[1:]))
	case name == Fakes:
		os.Exit(fakesMain(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// serviceMain acts as a service towards the stack. The setting <P>BREAK makes it fail.
func serviceMain(s Service, args []string) int {
	set := func(name string) string { return os.Getenv(s.prefix() + name) }
	say := func(line string) { _, _ = os.Stdout.WriteString(line + "\n") }
	for _, name := range []string{"DATABASE_URL_FILE", "REDIS_URL_FILE", "SERVICE_TOKENS_FILE"} {
		if text, err := os.ReadFile(set(name)); err != nil || len(text) == 0 {
			say("no file for " + name)
			return 2
		}
	}
	if args[0] == "keys" {
		say(`{"id":"k-1","key":"swy_` + args[slices.Index(args, "--product")+1] + `"}`)
		return 0
	}
	if len(args) != 1 {
		say("usage")
		return 2
	}
	if set("BREAK") == args[0] {
		say("broken on purpose")
		return 3
	}
	switch args[0] {
	case "serve":
		return listenUntilStopped(set("LISTEN")+set("HTTP_LISTEN"), say)
	case "control":
		return listenUntilStopped(set("CONTROL_LISTEN"), say)
	}
	say("done: " + args[0])
	return 0
}

func fakesMain(args []string) int {
	say := func(string) {}
	const flag = "--webhook="
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	if i < 0 || !slices.Contains(args, "--slack=") {
		return 2 // fakes that the options don't name must be left out
	}
	return listenUntilStopped(strings.TrimPrefix(args[i], flag), say)
}

func listenUntilStopped(address string, say func(string)) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /die", func(http.ResponseWriter, *http.Request) {
		say("dying")
		os.Exit(4)
	})
	mux.HandleFunc("POST /product/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer swy_alive" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		say(err.Error())
		return 1
	}
	say("drained")
	return 0
}

// binaries returns a folder in which all programs are links to the test's binary.
func binaries(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, service := range Services {
		link(t, self, filepath.Join(dir, string(service)))
	}
	link(t, self, filepath.Join(dir, Fakes))
	return dir
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
}

func options(t *testing.T) Options {
	t.Helper()
	state, err := store.Temporary()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	return Options{
		State:    state,
		Bin:      binaries(t),
		Fakes:    []Fake{FakeWebhook},
		Environ:  os.Environ(),
		Progress: func(line string) { t.Log(line) },
	}
}

func startStack(t *testing.T, o Options) *Stack {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { devtest.Stop(t, waitTimeout, s.Stop) })
	return s
}

func ready(t *testing.T, s *Stack, member string) bool {
	t.Helper()
	return healthy(s.URL(member), nil)(t.Context()) == nil
}

func TestAStackFromStartToStop(t *testing.T) {
	o := options(t)
	o.Replicas = map[Service]int{WebhookEgress: 2}
	s := startStack(t, o)

	for _, name := range []string{"gateway", "webhook-egress", "webhook-egress-2", "notify", "edge", "control"} {
		if !ready(t, s, name) {
			t.Errorf("%s is not ready at %s", name, s.URL(name))
		}
		if name != "edge" && name != "control" && s.GRPC(name) == "" {
			t.Errorf("%s has no gRPC address", name)
		}
	}
	if s.FakeURL(FakeWebhook) == "" || s.FakeURL(FakeSlack) != "" {
		t.Errorf("fakes at %q and %q", s.FakeURL(FakeWebhook), s.FakeURL(FakeSlack))
	}

	t.Run("keys are kept while the edge accepts them", func(t *testing.T) {
		for known, want := range map[string]string{"": "swy_ai", "swy_dead": "swy_ai", "swy_alive": "swy_alive"} {
			got, err := s.EnsureKey(t.Context(), known, "/product/v1/ai/chat", Key{Organization, "ai", "read", "demo"})
			if err != nil || got != want {
				t.Errorf("EnsureKey(%q) = %q, %v, want %q", known, got, err, want)
			}
		}
	})
	t.Run("a killed member comes back", func(t *testing.T) {
		for _, name := range []string{"webhook-egress-2", Fakes, Postgres} {
			if err := s.Kill(name); err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(t.Context(), name); err != nil {
				t.Errorf("restart %s: %v", name, err)
			}
		}
		if !ready(t, s, "webhook-egress-2") {
			t.Error("not ready after the restart")
		}
		if err := s.Kill("unknown"); err == nil {
			t.Error("Kill of an unknown member succeeded")
		}
	})
	t.Run("a terminated member drains", func(t *testing.T) {
		if err := s.Terminate(t.Context(), "notify"); err != nil {
			t.Fatal(err)
		}
		if text := read(t, s.logFile("notify")); !strings.HasSuffix(text, "drained") {
			t.Errorf("its log ends with %q", text)
		}
	})
	t.Run("only an unexpected exit is reported", func(t *testing.T) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL("gateway")+"/die", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := http.DefaultTransport.RoundTrip(request); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		select {
		case exit := <-s.Exits():
			if exit.Name != "gateway" || exit.Result == nil || !strings.Contains(exit.Tail, "dying") {
				t.Errorf("reported %+v", exit)
			}
		case <-time.After(waitTimeout):
			t.Fatal("no exit was reported")
		}
		select {
		case exit := <-s.Exits():
			t.Errorf("the exit of %s was reported too", exit.Name)
		default:
		}
	})

	devtest.Stop(t, waitTimeout, s.Stop)
	for _, name := range []string{"webhook-egress", "edge"} {
		if ready(t, s, name) {
			t.Errorf("%s answers after the stop", name)
		}
	}
}

func TestAServiceThatFailsStopsTheStart(t *testing.T) {
	for _, broken := range []string{"migrate", "serve"} {
		t.Run(broken, func(t *testing.T) {
			o := options(t)
			o.Env = map[Service][]string{Notify: {"NOTIFY_BREAK=" + broken}}
			s, err := Start(t.Context(), o)
			if err == nil {
				devtest.Stop(t, waitTimeout, s.Stop)
				t.Fatal("started")
			}
			for _, want := range []string{"notify", "exit status 3", "broken on purpose"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			// The next start gets the lock, so no process of the failed start uses the folder.
			o.Env = nil
			startStack(t, o)
		})
	}
}

func TestTwoStacksDoNotShareAFolder(t *testing.T) {
	o := options(t)
	startStack(t, o)
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "already running") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line that says a stack is already running", err)
	}
}

func TestTheStateOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give a folder to another user")
	}
	o := options(t)
	if err := os.Chown(o.State, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "belongs to another user (uid 12345)") {
		t.Errorf("got %v", err)
	}
}

func TestATakenPortStopsTheStartBeforeAnythingRuns(t *testing.T) {
	o := options(t)
	o.Fixed = true
	lookup := moved(t, nil)
	for _, l := range listeners(nil, o.Fakes) {
		o.Environ = append(o.Environ, l.setting+"="+lookup(l.setting))
	}
	occupy(t, lookup("NOTIFY_HTTP_LISTEN"))
	said := 0
	o.Progress = func(string) { said++ }
	_, err := Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "NOTIFY_HTTP_LISTEN=") {
		t.Errorf("got %v", err)
	}
	if said != 0 {
		t.Errorf("%d things happened before", said)
	}
}

// The stores start beside the build. None of them may outlive its failure, or the next start would find its folder taken.
func TestAFailedBuildStopsTheStores(t *testing.T) {
	o := options(t)
	failing := o
	failing.Bin, failing.BuildFlags = "", []string{"-no-such-flag"}
	if _, err := Start(t.Context(), failing); err == nil || !strings.Contains(err.Error(), "go build failed") {
		t.Fatalf("got %v, want an error of go build", err)
	}
	startStack(t, o)
}

func TestProgressIsReportedOneCallAtATime(t *testing.T) {
	const reporters, lines = 8, 100
	said := 0
	progress := serial(func(string) { said++ })
	var group sync.WaitGroup
	for range reporters {
		group.Go(func() {
			for range lines {
				progress("a line")
			}
		})
	}
	group.Wait()
	if said != reporters*lines {
		t.Errorf("%d lines, want %d", said, reporters*lines)
	}
	serial(nil)("a line")
}

func TestFindRoot(t *testing.T) {
	root, err := FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "deploy", "dev", "stack")); err != nil {
		t.Error(err)
	}
	t.Chdir("/")
	if root, err := FindRoot(); err == nil {
		t.Errorf("found %s above /", root)
	}
}
