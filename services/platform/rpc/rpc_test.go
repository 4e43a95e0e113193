package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
)

type bench struct {
	server *rpc.Server
	http   *httptest.Server
	conn   *grpc.ClientConn
	log    *testkit.Buffer
}

// setup starts both faces of an echo service whose handlers call handle.
func setup(t *testing.T, handle answer, with ...func(*rpc.Options)) *bench {
	t.Helper()
	b := &bench{log: &testkit.Buffer{}}
	b.server = newServer(t, b.log, with...)
	b.server.RegisterService(echoDesc(), handle)
	for path, method := range map[string]string{"/v1/echo/{user_name}": "Echo", "/v1/admin": "Admin", "/v1/open": "Open"} {
		transcode(t, b.server.Mux(), b.server.Local(), path, "/rpctest.EchoService/"+method)
	}
	b.server.Handle(http.MethodGet, "/v1/watch", "/rpctest.EchoService/Watch", func(w http.ResponseWriter, r *http.Request) error {
		_, err := handle(r.Context(), dynamicpb.NewMessage(echoContract.echo))
		if err == nil {
			_, err = io.WriteString(w, "event")
		}
		return err
	})
	if err := b.server.Check(); err != nil {
		t.Fatal(err)
	}
	b.http = httptest.NewServer(b.server.Handler())
	t.Cleanup(b.http.Close)
	b.conn = testkit.Dial(t, b.server.GRPC())
	return b
}

func newServer(t *testing.T, log io.Writer, with ...func(*rpc.Options)) *rpc.Server {
	t.Helper()
	options := rpc.Options{
		Log: slog.New(slog.NewJSONHandler(log, nil)), Tracer: tracenoop.NewTracerProvider().Tracer(""),
		Meter: metricnoop.NewMeterProvider().Meter(""), Tokens: testkit.Tokens(t,
			testkit.Token{Name: "edge", Role: caller.RoleService, Text: "svc"},
			testkit.Token{Name: "ops", Role: caller.RoleOperator, Text: "op"}),
		Role: echoContract.role, RawJSON: echoContract.rawJSON, ErrorBody: apierr.NewDocument,
		MaxBody: 4096, UnaryTimeout: time.Second,
	}
	for _, set := range with {
		set(&options)
	}
	server, err := rpc.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func (b *bench) do(t *testing.T, verb, path, token, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), verb, b.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return testkit.Do(t, http.DefaultClient, r)
}

func echo(_ context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) { return in, nil }

func TestJSONFaceCarriesRawJSONExactly(t *testing.T) {
	b := setup(t, echo)
	body := `{"payload": {"b":1.0, "a":12345678901234567890, "c":"<é\u00e9>"}, "items":[{"payload":[ 1,2 ]},{"payload":null}], "parts":[{"x": 1},"s"], "count":3}`
	code, text, header := b.do(t, "POST", "/v1/echo/ann", "svc", body)
	want := `{"user_name":"ann","payload":{"b":1.0, "a":12345678901234567890, "c":"<é\u00e9>"},"items":[` +
		`{"user_name":"","payload":[ 1,2 ],"items":[],"count":0,"parts":[]},{"user_name":"","payload":null,"items":[],"count":0,"parts":[]}],` +
		`"count":3,"parts":[{"x": 1},"s"]}`
	if code != 200 || text != want {
		t.Errorf("status %d, body\n%s\nwant\n%s", code, text, want)
	}
	if header.Get("Content-Type") != "application/json" || header.Get("X-Request-Id") == "" {
		t.Errorf("headers: %v", header)
	}
}

func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

func TestRefusalsOfTheJSONFace(t *testing.T) {
	b := setup(t, echo)
	tests := map[string]struct {
		verb, path, token, body string
		status                  int
		reason, says            string
	}{
		"no token":                {"POST", "/v1/echo/ann", "", `{`, 401, "unauthenticated", "service token is required"},
		"wrong token":             {"POST", "/v1/echo/ann", "nope", `{}`, 401, "unauthenticated", "not valid"},
		"wrong role":              {"POST", "/v1/admin", "svc", `{}`, 403, "forbidden", "needs the role operator"},
		"unknown field":           {"POST", "/v1/echo/ann", "svc", `{"nope":1}`, 400, "invalid_request", "nope: unknown field; known fields: user_name, payload, items, count, parts"},
		"misspelt field":          {"POST", "/v1/echo/ann", "svc", `{"usrname":1}`, 400, "invalid_request", "usrname: unknown field; did you mean user_name?"},
		"field not to repeat":     {"POST", "/v1/echo/ann", "svc", `{"` + strings.Repeat("count", 600) + `":1}`, 400, "invalid_request", "body: holds an unknown field; known fields: user_name, "},
		"unknown parameter":       {"POST", "/v1/echo/ann?usr=x", "svc", `{}`, 400, "invalid_request", "usr: unknown query parameter; this request takes none"},
		"parameter of a list":     {"GET", "/v1/watch?nope=x", "svc", ``, 400, "invalid_request", "nope: unknown query parameter; known parameters: user_name, payload, items, count, parts"},
		"misspelt parameter":      {"GET", "/v1/watch?cuont=1", "svc", ``, 400, "invalid_request", "cuont: unknown query parameter; did you mean count?"},
		"parameter not to repeat": {"GET", "/v1/watch?%ff%ff=1", "svc", ``, 400, "invalid_request", "query: a parameter of this name: unknown query parameter; known parameters: user_name, "},
		"zero in the path":        {"POST", "/v1/echo/%00", "svc", `{}`, 400, "invalid_request", "path: must be UTF-8"},
		"path not UTF-8":          {"POST", "/v1/echo/%ff", "svc", `{}`, 400, "invalid_request", "path: must be UTF-8"},
		"zero in a parameter":     {"POST", "/v1/echo/ann?count=%00", "svc", `{}`, 400, "invalid_request", "count: must be UTF-8"},
		"wrong type, snake":       {"POST", "/v1/echo/ann", "svc", `{"userName":5}`, 400, "invalid_request", "user_name: must be a string"},
		"wrong type":              {"POST", "/v1/echo/ann", "svc", `{"count":"x"}`, 400, "invalid_request", "count"},
		"deep unknown field":      {"POST", "/v1/echo/ann", "svc", `{"items":[{"count":1},{"nope":1}]}`, 400, "invalid_request", "items[1].nope: unknown field; known fields: user_name, "},
		"zero byte":               {"POST", "/v1/echo/ann", "svc", `{"items":[{"user_name":"a\u0000"}]}`, 400, "invalid_request", "items[0].user_name: must not hold a zero byte"},
		"not UTF-8":               {"POST", "/v1/echo/ann", "svc", "{\"payload\":\"\xff\"}", 400, "invalid_request", "body: must be UTF-8"},
		"query beside a body":     {"POST", "/v1/echo/ann?count=1", "svc", `{}`, 400, "invalid_request", "count: unknown query parameter"},
		"an unclean path":         {"POST", "//v1/admin", "svc", `{}`, 404, "not_found", "path"},
		"not a list":              {"POST", "/v1/echo/ann", "svc", `{"items":{}}`, 400, "invalid_request", "items: must be an array"},
		"not an integer":          {"POST", "/v1/echo/ann", "svc", `{"items":[{"count":1.5}]}`, 400, "invalid_request", "items[0].count: must be an integer"},
		"named twice":             {"POST", "/v1/echo/ann", "svc", `{"count":1,"count":2}`, 400, "invalid_request", "count"},
		"not JSON":                {"POST", "/v1/echo/ann", "svc", `{"count":`, 400, "invalid_request", "invalid JSON at byte"},
		"nested too deeply":       {"POST", "/v1/echo/ann", "svc", `{"payload":` + nested(200) + `}`, 400, "invalid_request", "body: must not be nested deeper than 200 levels"},
		"nested without an end":   {"POST", "/v1/echo/ann", "svc", strings.Repeat("[", 4096), 400, "invalid_request", "body: must not be nested deeper"},
		"not an object":           {"POST", "/v1/echo/ann", "svc", `[1]`, 400, "invalid_request", "must be a JSON object"},
		"too large":               {"POST", "/v1/echo/ann", "svc", `{"user_name":"` + strings.Repeat("x", 5000) + `"}`, 413, "too_large", "4096 bytes"},
		"unknown path":            {"POST", "/v1/nope", "svc", `{}`, 404, "not_found", "/v1/nope"},
		"wrong verb":              {"GET", "/v1/admin", "op", ``, 405, "method_not_allowed", "GET"},
		"stream without token":    {"GET", "/v1/watch", "", ``, 401, "unauthenticated", "required"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, text, header := b.do(t, tt.verb, tt.path, tt.token, tt.body)
			var doc apierr.Document
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatalf("body %q: %v", text, err)
			}
			if code != tt.status || string(doc.Error) != tt.reason || !strings.Contains(doc.Reason, tt.says) {
				t.Errorf("got %d %s", code, text)
			}
			if doc.RequestID == "" || doc.RequestID != header.Get("X-Request-Id") {
				t.Errorf("request id %q, header %q", doc.RequestID, header.Get("X-Request-Id"))
			}
			if code == 405 && header.Get("Allow") != "POST" {
				t.Errorf("Allow = %q", header.Get("Allow"))
			}
			if code == 401 && header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("WWW-Authenticate = %q", header.Get("WWW-Authenticate"))
			}
		})
	}
}

func TestPublicMethodNeedsNoToken(t *testing.T) {
	b := setup(t, echo)
	if code, text, _ := b.do(t, "POST", "/v1/open", "", `{}`); code != 200 {
		t.Errorf("status %d: %s", code, text)
	}
}

// The same call on the three faces passes through the same steps: identity, errors, recovery, request id and one log
// line.
func TestFacesAreOne(t *testing.T) {
	refuse := apierr.New(apierr.KindConflict, "settled", "already decided")
	handlers := map[string]answer{
		"refusal": func(context.Context, *dynamicpb.Message) (*dynamicpb.Message, error) { return nil, refuse },
		"panic":   func(context.Context, *dynamicpb.Message) (*dynamicpb.Message, error) { panic("hunter2") },
		"driver": func(context.Context, *dynamicpb.Message) (*dynamicpb.Message, error) {
			return nil, errors.New("pq: hunter2")
		},
		"caller": func(ctx context.Context, _ *dynamicpb.Message) (*dynamicpb.Message, error) {
			c := caller.From(ctx)
			return nil, apierr.Invalid(c.Name, c.Organization)
		},
	}
	want := map[string]struct {
		status int
		code   codes.Code
		says   string
	}{
		"refusal": {409, codes.Aborted, "already decided"},
		"panic":   {500, codes.Internal, "internal error"},
		"driver":  {500, codes.Internal, "internal error"},
		"caller":  {400, codes.InvalidArgument, "edge: org-1"},
	}
	for name, handle := range handlers {
		t.Run(name, func(t *testing.T) {
			b := setup(t, handle)
			want := want[name]
			for _, path := range []struct{ verb, path string }{{"POST", "/v1/echo/ann"}, {"GET", "/v1/watch"}} {
				code, text, _ := b.do(t, path.verb, path.path, "svc", `{}`, caller.HeaderOrganization, "org-1", caller.HeaderRequest, "my-id")
				if code != want.status || !strings.Contains(text, want.says) || !strings.Contains(text, `"request_id":"my-id"`) {
					t.Errorf("%s: %d %s", path.path, code, text)
				}
				if strings.Contains(text, "hunter2") {
					t.Errorf("%s: the cause leaked: %s", path.path, text)
				}
			}
			ctx := outgoing(t.Context(), "authorization", "Bearer svc", "x-organization-id", "org-1", "x-request-id", "my-id")
			for _, err := range []error{b.callUnary(ctx), b.callStream(ctx)} {
				st, _ := status.FromError(err)
				if st.Code() != want.code || !strings.Contains(st.Message(), want.says) || strings.Contains(st.Message(), "hunter2") {
					t.Errorf("gRPC: %v", err)
				}
			}
			if lines := strings.Count(b.log.String(), `"msg":"call"`); lines != 4 {
				t.Errorf("%d log lines, want one for each of the 4 calls:\n%s", lines, b.log.String())
			}
		})
	}
}

func (b *bench) callUnary(ctx context.Context) error {
	return b.conn.Invoke(ctx, "/rpctest.EchoService/Echo", dynamicpb.NewMessage(echoContract.echo), dynamicpb.NewMessage(echoContract.echo))
}

func (b *bench) callStream(ctx context.Context) error {
	stream, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/rpctest.EchoService/Watch")
	if err != nil {
		return err
	}
	if err := stream.SendMsg(dynamicpb.NewMessage(echoContract.echo)); err != nil {
		return err
	}
	return errors.Join(stream.CloseSend(), stream.RecvMsg(dynamicpb.NewMessage(echoContract.echo)))
}

// A partial response that a panic ends doesn't look complete, and nothing is appended to it.
func TestPanicInTheMiddleCutsTheAnswer(t *testing.T) {
	b := setup(t, echo)
	b.server.Handle(http.MethodGet, "/v1/half", "/rpctest.EchoService/Watch", func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("bug")
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.http.URL+"/v1/half", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer svc")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err == nil || string(text) != "half" {
		t.Errorf("answer %q, %v", text, err)
	}
}

func TestGRPCNeedsToken(t *testing.T) {
	b := setup(t, echo)
	for name, call := range map[string]func(context.Context) error{"unary": b.callUnary, "stream": b.callStream} {
		if err := call(t.Context()); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s without a token: %v", name, err)
		}
		if err := call(outgoing(t.Context(), "authorization", "Bearer svc")); err != nil {
			t.Errorf("%s with a token: %v", name, err)
		}
	}
}

func TestSuccessStatusAndHeaders(t *testing.T) {
	for _, want := range []int{201, 202, 204} {
		b := setup(t, func(ctx context.Context, in *dynamicpb.Message) (*dynamicpb.Message, error) {
			rpc.SetStatus(ctx, want)
			rpc.SetHeader(ctx, "Idempotent-Replayed", "true")
			return in, nil
		})
		code, text, header := b.do(t, "POST", "/v1/echo/ann", "svc", `{}`)
		if code != want || header.Get("Idempotent-Replayed") != "true" || header.Get("X-Http-Status") != "" {
			t.Errorf("status %d, headers %v", code, header)
		}
		if want == 204 && text != "" {
			t.Errorf("204 with a body: %s", text)
		}
	}
}

func TestUnaryCallIsBounded(t *testing.T) {
	b := setup(t, func(ctx context.Context, _ *dynamicpb.Message) (*dynamicpb.Message, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if code, text, _ := b.do(t, "POST", "/v1/echo/ann", "svc", `{}`); code != 504 {
		t.Errorf("status %d: %s", code, text)
	}
}

func TestProblemDetailsOnRequest(t *testing.T) {
	b := setup(t, echo)
	code, text, header := b.do(t, "POST", "/v1/nope", "svc", `{}`, "Accept", "application/problem+json")
	if code != 404 || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(text, `"status":404`) {
		t.Errorf("%d %v %s", code, header, text)
	}
}

func TestMethodWithoutRoleDoesNotStart(t *testing.T) {
	server := newServer(t, io.Discard)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "rpctest.BareService", HandlerType: (*any)(nil)}, answer(echo))
	if err := server.Check(); err == nil || !strings.Contains(err.Error(), "NoRole has no role") {
		t.Errorf("Check = %v", err)
	}
}

func TestRoutes(t *testing.T) {
	var got []string
	for _, r := range rpc.Routes(echoContract.service, echoContract.role) {
		got = append(got, strings.TrimSpace(r.Verb+" "+r.Path)+" "+string(r.Role))
	}
	want := "POST /v1/echo/{user_name} service|POST /v1/admin operator|POST /v1/open public| service"
	if strings.Join(got, "|") != want {
		t.Errorf("routes = %q, want %q", strings.Join(got, "|"), want)
	}
}

func TestRequestID(t *testing.T) {
	for given, kept := range map[string]bool{
		"abc-1": true, "Az09._:-": true, strings.Repeat("x", 128): true,
		"": false, "a b": false, strings.Repeat("x", 129): false, "ä": false, "a/b": false, "a\"b": false, "a,b": false, "<b>": false,
		"a=b": false, "{}": false, "a\nb": false, "%41": false,
	} {
		if got := rpc.RequestID(given); (got == given) != kept || got == "" {
			t.Errorf("RequestID(%q) = %q", given, got)
		}
	}
}

// New request ids sort after older ones, so that an index of them grows at one end.
func TestRequestIDsSort(t *testing.T) {
	before := ""
	for range 1000 {
		id := rpc.RequestID("")
		if id <= before || len(id) != 30 {
			t.Fatalf("%q behind %q", id, before)
		}
		before = id
	}
}

// The first calls of a new process determine concurrently which messages hold raw JSON, and none uses another's partial
// result.
func TestRawJSONFromTheFirstCalls(t *testing.T) {
	for range 200 {
		codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if err := codec.Unmarshal([]byte(`{"items":[{"payload":{"a":1}}]}`), dynamicpb.NewMessage(echoContract.echo)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
}

func FuzzRawJSON(f *testing.F) {
	f.Add(`{"payload":{"a":[1,2,{"b":null}]},"items":[{"payload":"x"}]}`)
	f.Add(`{"payload":1e400,"parts":[1,"a",null]}`)
	codec := rpc.NewCodecForTest(echoContract.rawJSON, nil)
	f.Fuzz(func(t *testing.T, text string) {
		in := dynamicpb.NewMessage(echoContract.echo)
		if err := codec.Unmarshal([]byte(text), in); err != nil {
			return
		}
		out, err := codec.Marshal(in)
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		if !json.Valid(out) {
			t.Fatalf("invalid JSON out: %s", out)
		}
		again := dynamicpb.NewMessage(echoContract.echo)
		if err := codec.Unmarshal(out, again); err != nil {
			t.Fatalf("own output refused: %v\n%s", err, out)
		}
		field := echoContract.echo.Fields().ByName(protoreflect.Name("payload"))
		if a, b := string(in.Get(field).Bytes()), string(again.Get(field).Bytes()); a != b && a != "null" {
			t.Errorf("payload changed: %q to %q", a, b)
		}
	})
}
