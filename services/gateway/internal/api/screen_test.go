package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/platform/testkit"
)

// Keys in a wrong field: of a vendor's form, and of no known form.
const (
	strayKey    = "sk-ant-api03-Zx81canaryQw27Rt63_canaryYu94Po50"
	strayRandom = "Zq4canary8Wn2Kd7Vb5Xm1Tg9Hs3Jf6Lc0Rp4Ye8Ua2Bi"
)

// content are the fields for content, as opposed to names; a key in them is the caller's own, and still appears in no
// error, log or row.
var content = []string{
	"LlmRequest.messages", "LlmRequest.stop", "ToolFunction.description", "ImagesRequest.messages", "ImagesRequest.prompt",
	"VisionRequest.prompt", "ImageRef.url", "ImageRef.base64", "CheckConsistencyRequest.prompt", "ReconcilePricingRequest.csv", "cursor",
	"GetDecisionRequest.token", "DecideRequest.token",
}

// opaqueFields are those of credentials, which byok_test.go covers.
var opaqueFields = []string{"SealedCredential.key_id"}

// strayField is one text field of a request message and the path to it.
type strayField struct {
	path    []protoreflect.FieldDescriptor
	content bool
}

func (f strayField) String() string {
	var names []string
	for _, field := range f.path {
		names = append(names, string(field.Name()))
	}
	return strings.Join(names, ".")
}

// strayFields returns all text fields of a message, at any depth.
func strayFields(desc protoreflect.MessageDescriptor, above []protoreflect.FieldDescriptor, isContent bool) (all []strayField) {
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		path := append(slices.Clone(above), field)
		full := string(desc.Name()) + "." + string(field.Name())
		if slices.Contains(opaqueFields, full) {
			continue
		}
		isContent := isContent || slices.Contains(content, full) || slices.Contains(content, string(field.Name()))
		switch {
		case field.Kind() == protoreflect.StringKind, field.IsMap():
			all = append(all, strayField{path, isContent})
		case field.Kind() == protoreflect.MessageKind && field.Message().ParentFile().Package() == desc.ParentFile().Package():
			all = append(all, strayFields(field.Message(), path, isContent)...)
		}
	}
	return all
}

// put sets the field at a path and creates the messages on the way.
func put(m protoreflect.Message, path []protoreflect.FieldDescriptor, text string) {
	field, last := path[0], len(path) == 1
	value := protoreflect.ValueOfString(text)
	switch {
	case field.IsMap():
		m.Mutable(field).Map().Set(protoreflect.ValueOfString("note").MapKey(), value)
	case field.IsList() && last:
		m.Mutable(field).List().Append(value)
	case last:
		m.Set(field, value)
	case field.IsList():
		list := m.Mutable(field).List()
		item := list.NewElement()
		put(item.Message(), path[1:], text)
		list.Append(item)
	default:
		put(m.Mutable(field).Message(), path[1:], text)
	}
}

// strayMethods returns the contract's methods with their routes.
func strayMethods(tb testing.TB) map[rpc.Route]protoreflect.MethodDescriptor {
	tb.Helper()
	all := make(map[rpc.Route]protoreflect.MethodDescriptor)
	protoregistry.GlobalFiles.RangeFilesByPackage("switchyard.gateway.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for _, route := range rpc.Routes(service, optionsv1.E_Role) {
				name := route.Method[strings.LastIndex(route.Method, "/")+1:]
				all[route] = service.Methods().ByName(protoreflect.Name(name))
			}
		}
		return true
	})
	return all
}

// visited collects all responses.
type visited struct {
	bench *bench
	texts []string
}

// http sends a message by its route: path, query or body.
func (v *visited) http(t *testing.T, route rpc.Route, m proto.Message) (status int, body string) {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	path := route.Path
	for name := range strings.SplitSeq(route.Path, "{") {
		name, _, _ = strings.Cut(name, "}")
		value, ok := fields[name].(string)
		if !ok {
			value = "x"
		}
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
		if strings.Contains(route.Path, "{"+name+"}") {
			delete(fields, name)
		}
	}
	sent := ""
	if route.Body {
		whole, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		sent = string(whole)
	} else {
		query := url.Values{}
		for name, value := range fields {
			query.Set(name, fmt.Sprint(value))
		}
		path += "?" + query.Encode()
	}
	return v.say(t, route.Verb, path, sent)
}

func (v *visited) say(t *testing.T, verb, path, body string, headers ...string) (status int, text string) {
	t.Helper()
	a := v.bench.say(t, verb, path, body, append([]string{"Authorization", "Bearer ops"}, headers...)...)
	v.texts = append(v.texts, a.body, fmt.Sprint(a.header))
	return a.status, a.body
}

// grpc calls the method with a message.
func (v *visited) grpc(t *testing.T, route rpc.Route, method protoreflect.MethodDescriptor, m proto.Message) string {
	t.Helper()
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer ops", "x-organization-id", "acme"))
	reply := dynamicpb.NewMessage(method.Output())
	var err error
	if method.IsStreamingServer() {
		err = v.stream(ctx, route.Method, m, reply)
	} else {
		err = v.bench.conn.Invoke(ctx, route.Method, m, reply)
	}
	text := fmt.Sprint(err)
	v.texts = append(v.texts, text, fmt.Sprint(reply))
	return text
}

func (v *visited) stream(ctx context.Context, method string, m, reply proto.Message) error {
	out, err := v.bench.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := out.SendMsg(m); err != nil {
		return err
	}
	if err := out.CloseSend(); err != nil {
		return err
	}
	for err == nil {
		err = out.RecvMsg(reply)
	}
	return err
}

// A key in any text field of any request, on either face, is refused with the field's name, unless the field is
// declared as content; in neither case does it appear in any output. The test covers fields that are added to the
// contract.
func TestKeysInWrongFieldsStayOut(t *testing.T) {
	b := setup(t)
	v := &visited{bench: b}
	seen := 0
	methods := strayMethods(t)
	for _, route := range slices.SortedFunc(maps.Keys(methods), func(a, b rpc.Route) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) }) {
		method := methods[route]
		kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strayFields(method.Input(), nil, false) {
			seen++
			m := kind.New()
			put(m, field.path, strayKey)
			text := v.grpc(t, route, method, m.Interface())
			if !field.content && !strings.Contains(text, "raw key") {
				t.Errorf("gRPC %s: %s takes a key: %s", route.Method, field, text)
			}
			if route.Path == "" {
				continue
			}
			if status, body := v.http(t, route, m.Interface()); !field.content && (status != http.StatusBadRequest || !strings.Contains(body, "raw_key_refused")) {
				t.Errorf("%s %s: %s takes a key: %d %s", route.Verb, route.Path, field, status, body)
			}
			// A key of no known form may be a caller's own text; it is not repeated anywhere either.
			m = kind.New()
			put(m, field.path, strayRandom)
			v.grpc(t, route, method, m.Interface())
			v.http(t, route, m.Interface())
		}
		v.names(t, route)
	}
	if seen < 150 {
		t.Errorf("%d fields were found; the walk has lost some", seen)
	}
	v.faces(t)
	v.stayedOut(t)
}

// names puts a key into the names that a caller may choose: of fields, parameters and path segments.
func (v *visited) names(t *testing.T, route rpc.Route) {
	t.Helper()
	if route.Path == "" {
		return
	}
	path := strings.NewReplacer("{", "", "}", "").Replace(route.Path)
	for _, key := range []string{strayKey, strayRandom} {
		v.say(t, route.Verb, path+"?"+key+"=1", `{}`)
		v.say(t, route.Verb, path+"?limit="+key+"&since="+key, `{}`)
		v.say(t, route.Verb, path+"/"+key, `{}`)
		v.say(t, "PATCH", path, `{}`)
		if !route.Body {
			continue
		}
		for _, body := range []string{
			`{"KEY":1}`, `{"KEY":1,"KEY":2}`, `{"metadata":{"KEY":1}}`, `{"metadata":{"KEY":"a","KEY":"b"}}`, `{"byok":{"KEY":1}}`, `{"sealed":{"KEY":1}}`,
			`{"lines":[{"KEY":1}]}`, `{"model":{"KEY":1}}`, `{"limit":"KEY"}`, `{"messages":[{"KEY":1}]}`, `{"messages":[{"content":[{"KEY":1}]}]}`,
			`{"ttl_seconds":"KEY"}`, `{"sealed":{"ciphertext":"KEY!"}}`, `{"KEY"`, `{"expires_at":"KEY"}`, `{"percentage":"KEY"}`,
		} {
			v.say(t, route.Verb, path, strings.ReplaceAll(body, "KEY", key))
		}
	}
}

// faces sends keys to the faces for SDKs of other APIs, and in all headers.
func (v *visited) faces(t *testing.T) {
	t.Helper()
	bodies := map[string][]string{
		completions:      {`"messages":[{"role":"user","content":"hi"}]`},
		messagesPath:     {`"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`},
		"/v1/embeddings": {`"input":"hi","encoding_format":"float"`, `"input":"hi"`},
		chatPath:         {`"messages":[{"role":"user","content":"hi"}]`},
	}
	headers := []string{
		"X-Switchyard-Provider", "X-Switchyard-Byok", "X-Switchyard-Goal", "X-Switchyard-Classification", "X-Switchyard-Locale",
		"X-Switchyard-Language-Mode", "X-Switchyard-Cache", "X-Switchyard-Approval-Ref", "X-Switchyard-Allow-Substitution", "X-Switchyard-Dialect",
		"X-Organization-Id", "X-Key-Id", "X-Key-Terms", "X-Owner-Id", "X-User-Id", "X-Run-Id", "X-Request-Id", "Idempotency-Key", "Traceparent", "If-None-Match",
		"Anthropic-Version", "Anthropic-Beta", "X-Stainless-Lang", "Content-Type", "Accept",
	}
	fields := (&gatewayv1.LlmRequest{}).ProtoReflect().Descriptor().Fields()
	for path, wholes := range bodies {
		for _, whole := range wholes {
			for _, key := range []string{strayKey, strayRandom} {
				for _, header := range headers {
					v.say(t, "POST", path, `{"model":"sandbox",`+whole+`}`, header, key)
				}
				v.refusedOn(t, path, `{"model":"`+key+`",`+whole+`}`)
				v.say(t, "POST", path, `{"model":"sandbox","`+key+`":1,"`+key+`":2,`+whole+`}`)
				v.say(t, "POST", path, `{"model":"sandbox","`+key+`":1,`+whole+`}`)
				v.say(t, "POST", path, `{"model":"sandbox","\u0061`+key+`":1,`+whole+`}`)
				v.say(t, "POST", path, `{"model":"sandbox","metadata":{"`+key+`":"x"},"user":"`+key+`",`+whole+`}`)
				v.say(t, "POST", path, `{"model":"sandbox","metadata":{"user_id":"`+key+`","`+key+`":1},`+whole+`}`)
				v.refusedOn(t, path, `{"model":"sandbox","switchyard":{"byok":{"provider":"`+key+`"}},`+whole+`}`)
				v.say(t, "POST", path, `{"model":"sandbox","switchyard":{"`+key+`":1},`+whole+`}`)
				for i := range fields.Len() {
					v.say(t, "POST", path, fmt.Sprintf(`{"model":"sandbox","switchyard":{%q:%q},%s}`, fields.Get(i).Name(), key, whole))
				}
			}
		}
	}
	for _, key := range []string{strayKey, strayRandom} {
		for _, path := range []string{"/v1/models/", "/v1/models/by-id/", "/", "/v1/llm/chat/", "/v1/support/trace/"} {
			v.say(t, "GET", path+key, "")
			v.say(t, "GET", path+"a/"+key+"?"+key+"="+key, "")
		}
	}
}

func (v *visited) refusedOn(t *testing.T, path, body string) {
	t.Helper()
	if status, text := v.say(t, "POST", path, body); status != http.StatusBadRequest {
		t.Errorf("POST %s %s: %d %s, want 400", path, body, status, text)
	}
}

// stayedOut searches all output and storage for the keys.
func (v *visited) stayedOut(t *testing.T) {
	t.Helper()
	b := v.bench
	b.post(t, chatPath, `{"model":"sandbox","messages":[{"role":"user","content":"last"}]}`, "X-Request-Id", "req-last")
	b.recorded(t, "req-last", 1) // And so are those before.
	tables := testkit.Value[[]string](t, b.pool, "SELECT array_agg(tablename::text) FROM pg_tables WHERE schemaname = current_schema()")
	if len(tables) < 20 {
		t.Errorf("only %d tables: %v", len(tables), tables)
	}
	for _, table := range tables {
		rows := testkit.Value[string](t, b.pool, "SELECT coalesce(string_agg(t::text, ' '), '') FROM "+table+" t")
		stray(t, "the rows of "+table, rows)
	}
	var numbers metricdata.ResourceMetrics
	if err := b.metrics.Collect(t.Context(), &numbers); err != nil {
		t.Fatal(err)
	}
	counted, err := json.Marshal(numbers)
	if err != nil {
		t.Fatal(err)
	}
	stray(t, "the metrics", string(counted))
	for line := range strings.Lines(b.log.String()) {
		stray(t, "the log", line)
	}
	for _, span := range b.spans.GetSpans() {
		stray(t, "a span", fmt.Sprintf("%+v", span))
	}
	for _, text := range v.texts {
		stray(t, "an answer", text)
	}
	testkit.NoLeak(t, strayKey, v.texts...)
}

// stray searches for either key, plain or URL-encoded.
func stray(t *testing.T, where, text string) {
	t.Helper()
	for _, key := range []string{strayKey, strayRandom} {
		if at := strings.Index(strings.ToLower(text), strings.ToLower(key)); at >= 0 {
			t.Errorf("%s: a key is repeated: %s", where, text[max(0, at-200):min(len(text), at+len(key)+60)])
		}
	}
}
