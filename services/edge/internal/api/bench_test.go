package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/redis"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/telemetry"
	"switchyard.dev/services/platform/testkit"
)

// BenchmarkCall makes whole calls, 16 at a time, in one run: to a service that costs next to nothing, to the same through
// a thin net/http relay, through httputil.ReverseProxy, and through the edge: key, permission, both limits settled over
// Redis, log line, metrics, and where it says so a recorded trace. cpu-ns/op and switches/op are the process's, so a way
// costs what it has more than the service itself.
func BenchmarkCall(b *testing.B) {
	lifecycle.TuneCollector()
	service := serveCanned(b)
	relay := httptest.NewServer(thinRelay(service))
	b.Cleanup(relay.Close)
	reverse := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport(), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(service) },
	})
	b.Cleanup(reverse.Close)
	recorded := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
	edge, key := serveEdge(b, service, nil)
	traced, tracedKey := serveEdge(b, service, recorded)
	const chat, free = "/product/v1/ai/chat", "/product/v1/ai/anthropic/v1/messages/count_tokens"
	for _, way := range []struct{ name, address, path, key string }{
		{"service", service.Host, chat, key},
		{"relay", relay.Listener.Addr().String(), chat, key},
		{"reverseproxy", reverse.Listener.Addr().String(), chat, key},
		{"edge, not counted", edge, free, key},
		{"edge", edge, chat, key},
		{"edge, traced", traced, chat, tracedKey},
	} {
		b.Run(way.name, func(b *testing.B) { call(b, way.address, way.path, way.key) })
	}
}

// serveEdge serves the edge as package app does, and returns its address and a key.
func serveEdge(b *testing.B, service *url.URL, tracers trace.TracerProvider) (address, key string) {
	b.Helper()
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	t, err := telemetry.Setup(b.Context(), telemetry.Options{Service: "edge", LogWriter: log})
	if err != nil {
		b.Fatal(err)
	}
	if tracers == nil {
		tracers = t.TracerProvider
	}
	runner := lifecycle.New(slog.New(slog.DiscardHandler), lifecycle.Options{Grace: time.Second})
	o, manager := benchOptions(b, service, runner, t)
	o.Tracer = tracers.Tracer("edge")
	_, text, err := manager.Create(b.Context(), apikey.Actor{Name: "bench"},
		apikey.Request{Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read}})
	if err != nil {
		b.Fatal(err)
	}
	handler, err := api.New(o)
	if err != nil {
		b.Fatal(err)
	}
	address = testkit.FreeAddress(b)
	if err := rpc.ServeHTTP(b.Context(), runner, "http", address, handler, nil); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := runner.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { stop(); running.Wait() })
	return address, text.Reveal()
}

// benchOptions builds what the edge consists of, over the test's own stores, and the manager of its keys.
func benchOptions(b *testing.B, service *url.URL, runner *lifecycle.Runner, t *telemetry.Telemetry) (api.Options, *apikey.Manager) {
	b.Helper()
	pool := testkit.Postgres(b, migrations.FS)
	pepper, err := apikey.NewPepper(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		b.Fatal(err)
	}
	table, err := route.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	keys, usage := postgres.NewKeys(pool), postgres.NewUsage(pool)
	limiter := limit.New(redis.NewLimits(testkit.Redis(b)))
	runner.Go("rate limits", func(ctx context.Context) error { return limiter.Run(ctx, t.Log) })
	watcher, err := plan.NewWatcher(b.Context(), postgres.NewPlans(pool), t.Log)
	if err != nil {
		b.Fatal(err)
	}
	quotas := quota.New(watcher, "", redis.NewQuotas(testkit.Redis(b)), usage)
	runner.Go("quotas", func(ctx context.Context) error { return quotas.Run(ctx, t.Log) })
	services := proxy.Transport(nil)
	b.Cleanup(services.CloseIdleConnections)
	wide := limit.Limit{Requests: 1_000_000, Window: time.Second, Burst: 1_000_000}
	return api.Options{
		Log: t.Log, Meter: t.MeterProvider.Meter("edge"), Table: table.Served([]string{"gateway"}),
		Upstreams: map[string]*url.URL{"gateway": service},
		Verifier:  apikey.NewVerifier(pepper, keys, 1000, time.Minute, apikey.Limits{Key: wide, Organization: wide}),
		Users:     usertoken.NewVerifier(apikey.Limits{Key: wide, Organization: wide}),
		Limiter:   limiter, Quotas: quotas, Credits: credit.NewManager(postgres.NewCredits(pool), t.Log),
		Relay: proxy.New(services, secret.New(serviceToken), proxy.Bounds{
			Body: 32 << 20, Memory: 64 << 20, Share: 32 << 20, BodyTime: 30 * time.Second, WriteTime: 30 * time.Second,
		}),
	}, apikey.NewManager(pepper, keys, nil, table.Products(), t.Log)
}

func transport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
}

// thinRelay is the least that relays: it reads the body, sends it on, and copies the answer.
func thinRelay(to *url.URL) http.Handler {
	client := &http.Client{Transport: transport()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
		outbound, err := http.NewRequestWithContext(r.Context(), r.Method, to.String()+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		outbound.Header.Set("Content-Type", r.Header.Get("Content-Type"))
		outbound.Header.Set("Authorization", r.Header.Get("Authorization"))
		answer, err := client.Do(outbound)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.Header().Set("Content-Length", answer.Header.Get("Content-Length"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})
}

// serveCanned answers every request with the same bytes, and returns its URL.
func serveCanned(b *testing.B) *url.URL {
	b.Helper()
	text := strings.Repeat("x", 500)
	canned := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for from := bufio.NewReader(conn); skipMessage(from, nil) == nil; {
					if _, err := conn.Write(canned); err != nil {
						return
					}
				}
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}
}

// skipMessage reads an HTTP message whose length is announced. It returns an error unless its first line contains want.
func skipMessage(from *bufio.Reader, want []byte) error {
	first, length := true, 0
	for {
		line, err := from.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && !bytes.Contains(line, want):
			return fmt.Errorf("got %q, want %q", line, want)
		case len(line) == len("\r\n"):
			_, err = from.Discard(length)
			return err
		}
		first = false
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
}

// call makes b.N calls over 16 connections with a client that costs next to nothing.
func call(b *testing.B, address, path, key string) {
	b.Helper()
	body := `{"model":"load","messages":[{"role":"user","content":"` + strings.Repeat("How long is the train? ", 30) + `"}]}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nAuthorization: Bearer %s\r\n\r\n%s",
		path, address, len(body), key, body)
	b.ReportAllocs()
	b.SetParallelism(8)
	begun, switches := usage()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		for from := bufio.NewReader(conn); pb.Next(); {
			if _, err = conn.Write(request); err == nil {
				err = skipMessage(from, []byte("200 OK"))
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	ended, after := usage()
	b.ReportMetric(float64((ended-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(after-switches)/float64(b.N), "switches/op")
}

// usage returns the process's processor time and the context switches of its threads.
func usage() (time.Duration, int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // Never happens on a supported system.
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw + u.Nivcsw
}
