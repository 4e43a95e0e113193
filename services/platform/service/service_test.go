package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/api/annotations"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/service"
	"switchyard.dev/services/platform/testkit"
)

var (
	errEnough = errors.New("enough")
	options   = service.Options{Name: "shop"}
)

// wire runs a service whose build fails at its end, so that what it opened is closed.
func wire(t *testing.T, build func(ctx context.Context, s *service.Service)) {
	t.Helper()
	err := service.Run(t.Context(), options, func(ctx context.Context, s *service.Service) error {
		build(ctx, s)
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("Run = %v, want the error of build", err)
	}
}

// file returns the path of a file that contains the text.
func file(t *testing.T, text string) secret.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return secret.File(path)
}

func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var seen []string
	err := service.Run(ctx, options, func(_ context.Context, s *service.Service) error {
		s.Runner.Go("worker", func(ctx context.Context) error {
			seen = append(seen, "work")
			stop()
			<-ctx.Done()
			return nil
		})
		s.Runner.OnClose("store", func(context.Context) error { seen = append(seen, "close"); return nil })
		return nil
	})
	if err != nil {
		t.Errorf("Run = %v", err)
	}
	if diff := cmp.Diff([]string{"work", "close"}, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

func TestBuildThatFails(t *testing.T) {
	closed := false
	wire(t, func(_ context.Context, s *service.Service) {
		s.Runner.OnClose("store", func(context.Context) error { closed = true; return nil })
	})
	if !closed {
		t.Error("what a failed build opened is left open")
	}
}

func migrations(numbers ...string) fs.FS {
	files := fstest.MapFS{}
	for _, n := range numbers {
		files["0000"+n+"_add.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE item" + n + " (id bigint);\n")}
	}
	return files
}

// A start that a signal ends hasn't failed; one that fails after the signal has.
func TestStartThatIsEnded(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct{ cause, want error }{"by the signal": {context.Canceled, nil}, "by itself": {broken, broken}} {
		ctx, stop := context.WithCancel(t.Context())
		err := service.Run(ctx, options, func(context.Context, *service.Service) error {
			stop()
			return fmt.Errorf("connect: %w", tt.cause)
		})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: the run ended with %v, want %v", name, err, tt.want)
		}
	}
}

func TestPool(t *testing.T) {
	database := service.Database{Setting: "SHOP_DATABASE_URL_FILE", URLFile: file(t, testkit.PostgresURL(t, migrations("1"))), Name: "shop"}
	for name, tt := range map[string]struct {
		program    string
		migrations fs.FS
		want       string // in the error; "" is none
	}{
		"a schema of this build":               {"", migrations("1"), ""},
		"an older schema":                      {"", migrations("1", "2"), "run `shop migrate`"},
		"an older schema of another's program": {"store", migrations("1", "2"), "run `store migrate`"},
		"a schema that isn't asked":            {"", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			wire(t, func(ctx context.Context, s *service.Service) {
				database := database
				database.Program = tt.program
				pool, err := s.Pool(ctx, database, tt.migrations)
				if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("Pool = %v, want %q", err, tt.want)
				}
				if err := pool.Ping(ctx); err != nil {
					t.Errorf("ping: %v", err)
				}
				if pool.Config().BeforeConnect == nil {
					t.Error("new connections don't follow the URL's file")
				}
			})
		})
	}
}

func TestRedis(t *testing.T) {
	server := testkit.Redis(t)
	wire(t, func(ctx context.Context, s *service.Service) {
		client, err := s.Redis(ctx, service.Redis{URLFile: file(t, "redis://"+server.Options().Addr), Prefix: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Ping(ctx).Err(); err != nil {
			t.Errorf("ping: %v", err)
		}
		if client.Options().CredentialsProviderContext == nil {
			t.Error("new connections don't follow the URL's file")
		}
		if key := client.Key("a"); key != "shop:a" {
			t.Errorf("key %s, want shop:a", key)
		}
	})
}

func TestRedisThatIsNotNamed(t *testing.T) {
	wire(t, func(ctx context.Context, s *service.Service) {
		if client, err := s.Redis(ctx, service.Redis{}); client != nil || err != nil {
			t.Errorf("Redis = %v, %v, want none and no error", client, err)
		}
	})
}

// The error of a store names the setting that is wrong.
func TestStoresNameTheirSetting(t *testing.T) {
	missing := secret.File(filepath.Join(t.TempDir(), "missing"))
	_, err := service.OpenPool(t.Context(), service.Database{Setting: "SHOP_DATABASE_URL_FILE", URLFile: missing})
	wantSetting(t, err, "SHOP_DATABASE_URL_FILE: ")
	_, err = service.OpenRedis(t.Context(), service.Redis{Settings: "SHOP_REDIS_", URLFile: missing})
	wantSetting(t, err, "SHOP_REDIS_URL_FILE: ")
	_, err = service.OpenRedis(t.Context(), service.Redis{Settings: "SHOP_REDIS_", URLFile: file(t, "rediss://h"), CAFile: string(missing)})
	wantSetting(t, err, "SHOP_REDIS_CA_FILE: ")
}

func wantSetting(t *testing.T, err error, setting string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), setting) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that names %s and the missing file", err, setting)
	}
}

func newServer(t *testing.T, s *service.Service, a service.Access) (*rpc.Server, error) {
	t.Helper()
	return s.NewServer(a, rpc.Options{
		Role: annotations.E_Http, RawJSON: annotations.E_FieldInfo, ErrorBody: apierr.NewDocument, MaxBody: 1 << 10,
	})
}

func TestNewServerReadsTheTokens(t *testing.T) {
	wire(t, func(_ context.Context, s *service.Service) {
		if _, err := newServer(t, s, service.Access{TokensFile: filepath.Join(t.TempDir(), "missing")}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without its tokens: %v, want that the file is missing", err)
		}
		if _, err := newServer(t, s, service.Access{AuthDisabled: true}); err != nil {
			t.Errorf("with authentication disabled: %v", err)
		}
	})
}

func TestMount(t *testing.T) {
	text := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	}
	contract := service.Contract{
		Files: fstest.MapFS{"openapi/shop.swagger.json": {Data: []byte(`{"swagger":"2.0","paths":{}}`)}}, Name: "shop", Title: "Shop",
	}
	for name, tt := range map[string]struct {
		open service.Open
		want map[string]string // a part of the answer, by path
	}{
		"defaults": {service.Open{Contract: contract}, map[string]string{
			"/health": `{"status":"ok"}`, "/health/live": `{"status":"ok"}`, "/health/ready": `"checks":{"lifecycle":"ok"}`,
			"/metrics": "target_info", "/openapi.json": `"title":"Shop"`, "/docs": "<html",
		}},
		"own": {service.Open{Health: text("own health"), Ready: text("own readiness"), Contract: contract, Pages: map[string]http.Handler{"/page": text("own page")}}, map[string]string{
			"/health": "own health", "/health/live": `{"status":"ok"}`, "/health/ready": "own readiness", "/page": "own page",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wire(t, func(ctx context.Context, s *service.Service) {
				server, err := newServer(t, s, service.Access{AuthDisabled: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Mount(server, tt.open); err != nil {
					t.Fatal(err)
				}
				for path, want := range tt.want {
					answer := httptest.NewRecorder()
					server.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
					if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
						t.Errorf("GET %s = %d %s, want %s", path, answer.Code, answer.Body.String(), want)
					}
				}
			})
		})
	}
}

// Each path of the index answers, and a browser goes to the documents.
func TestIndex(t *testing.T) {
	wire(t, func(ctx context.Context, s *service.Service) {
		server, err := newServer(t, s, service.Access{AuthDisabled: true})
		if err != nil {
			t.Fatal(err)
		}
		contract := service.Contract{Files: fstest.MapFS{"openapi/shop.swagger.json": {Data: []byte(`{"swagger":"2.0","paths":{}}`)}}, Name: "shop"}
		if err := s.Mount(server, service.Open{Contract: contract}); err != nil {
			t.Fatal(err)
		}
		get := func(path, accept string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			r.Header.Set("Accept", accept)
			answer := httptest.NewRecorder()
			server.Handler().ServeHTTP(answer, r)
			return answer
		}
		answer := get("/", "*/*")
		var got map[string]string
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("GET / = %d %s: %v", answer.Code, answer.Body, err)
		}
		want := map[string]string{
			"name": "shop", "version": s.Version, "documents": "/docs", "openapi": "/openapi.json",
			"health": "/health", "ready": "/health/ready", "metrics": "/metrics",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("GET / (-want +got):\n%s", diff)
		}
		if want["version"] == "" {
			t.Error("the service has no version")
		}
		delete(got, "name")
		delete(got, "version")
		for name, path := range got {
			if a := get(path, "*/*"); a.Code != http.StatusOK {
				t.Errorf("%s: GET %s = %d", name, path, a.Code)
			}
		}
		browser := get("/", "text/html,application/xhtml+xml,*/*;q=0.8")
		if at := browser.Header().Get("Location"); browser.Code != http.StatusSeeOther || at != "/docs" {
			t.Errorf("GET / of a browser = %d to %q, want the documents", browser.Code, at)
		}
		for _, a := range []*httptest.ResponseRecorder{answer, browser} {
			if vary := a.Header().Get("Vary"); vary != "Accept" {
				t.Errorf("Vary %q, want Accept", vary)
			}
		}
		if a := get("/nope", "text/html"); a.Code != http.StatusNotFound {
			t.Errorf("GET /nope = %d, want 404", a.Code)
		}
	})
}

func TestMountWithoutContract(t *testing.T) {
	wire(t, func(_ context.Context, s *service.Service) {
		server, err := newServer(t, s, service.Access{AuthDisabled: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Mount(server, service.Open{Contract: service.Contract{Files: fstest.MapFS{}, Name: "shop"}}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Mount = %v, want that the document is missing", err)
		}
	})
}
