package api_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A request id is the caller's own: another organization that repeats it does not hide the trace of the first.
func TestSupportTraceOfARepeatedID(t *testing.T) {
	b := setup(t)
	const path = "/v1/support/trace/req-shared"
	ask := func(organization string, times int) {
		t.Helper()
		if a := b.chat(t, `{"model":"sandbox",`+messages+`}`, "X-Request-Id", "req-shared", "X-Organization-Id", organization); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		b.recorded(t, "req-shared", times)
	}
	ask("acme", 1)
	alone := b.get(t, path, "sup").fields(t, 200)
	if alone["organization_id"] != "acme" || alone["ambiguous"] != false || len(alone["others"].([]any)) != 0 {
		t.Errorf("of one organization: %v", alone)
	}
	ask("bolt", 2)
	ask("bolt", 3) // More of one organization are not another organization's.
	both := b.get(t, path, "sup").fields(t, 200)
	if both["organization_id"] != "bolt" || both["ambiguous"] != true {
		t.Errorf("of two organizations: %v of %v", both["ambiguous"], both["organization_id"])
	}
	if other := only(t, both["others"]); other["organization_id"] != "acme" || other["request_id"] != "req-shared" || other["usage"] == nil {
		t.Errorf("the other one is %v", other)
	}
	for _, organization := range []string{"acme", "bolt"} {
		one := b.get(t, path+"?organization_id="+organization, "sup").fields(t, 200)
		if one["organization_id"] != organization || one["ambiguous"] != false {
			t.Errorf("of %s: %v", organization, one)
		}
	}
	b.get(t, path+"?organization_id=cog", "sup").refused(t, 404, "not_found", "request_id")
	b.get(t, path+"?organization_id=acme", "sup", "X-Organization-Id", "bolt").refused(t, 403, "organization_mismatch", "")
	// Each organization has its own lineage and replay.
	for _, organization := range []string{"acme", "bolt"} {
		for _, path := range []string{"/v1/lineage/req-shared", "/v1/replay/req-shared"} {
			if got := b.get(t, path, "svc", "X-Organization-Id", organization).fields(t, 200); got["organization_id"] != organization {
				t.Errorf("%s of %s is of %v", path, organization, got["organization_id"])
			}
		}
	}
}

// A limit is 1 to 200 or absent; 0 is neither, on every list and both faces.
func TestLimits(t *testing.T) {
	b := setup(t)
	md := metadata.Pairs("authorization", "Bearer ops", "x-organization-id", "acme")
	lists := 0
	for route, method := range strayMethods(t) {
		field := method.Input().Fields().ByName("limit")
		if field == nil {
			continue
		}
		lists++
		path := strings.NewReplacer("{org_id}", "acme", "{", "", "}", "").Replace(route.Path)
		extra := ""
		if strings.HasSuffix(path, "blast-radius") {
			extra = "&provider=first"
		}
		for _, limit := range []string{"0", "-1", "1001"} {
			a := b.visit(t, "ops", route.Verb, path+"?limit="+limit+extra, "", "X-Organization-Id", "acme")
			if a.status != 400 || !strings.Contains(a.body, "limit: ") {
				t.Errorf("%s with the limit %s: %d %s", path, limit, a.status, a.body)
			}
		}
		for _, query := range []string{"?limit=1", "?"} {
			if a := b.visit(t, "ops", route.Verb, path+query+extra, "", "X-Organization-Id", "acme"); strings.Contains(a.body, "limit") && a.status == 400 {
				t.Errorf("%s%s: %d %s", path, query, a.status, a.body)
			}
		}
		kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		m := kind.New()
		for _, name := range []protoreflect.Name{"provider", "org_id", "server_id"} {
			if field := m.Descriptor().Fields().ByName(name); field != nil {
				m.Set(field, protoreflect.ValueOfString("first"))
			}
		}
		m.Set(field, protoreflect.ValueOfInt32(0))
		err = b.conn.Invoke(metadata.NewOutgoingContext(t.Context(), md), route.Method, m.Interface(), dynamicpb.NewMessage(method.Output()))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(err), "limit") {
			t.Errorf("%s with the limit 0: %v", route.Method, err)
		}
	}
	if lists < 16 {
		t.Errorf("%d lists were found; the walk has lost some", lists)
	}
}

// Usage has null where no goal was requested, on every path of the JSON face that shows it.
func TestNoGoalIsNull(t *testing.T) {
	b := setup(t)
	const body = `{"model":"sandbox",` + messages + `}`
	answers := map[string]string{
		"chat":   b.chat(t, body, "X-Request-Id", "req-goal").body,
		"stream": b.chat(t, `{"stream":true,`+body[1:]).body,
		"vision": b.post(t, "/v1/vision", `{"model":"first/ok","prompt":"x","image":{"base64":"`+pngText+`"}}`).body,
	}
	b.recorded(t, "req-goal", 1)
	for _, path := range []string{"/v1/traces?request_id=req-goal", "/v1/replay/req-goal"} {
		answers[path] = b.get(t, path, "svc", "X-Organization-Id", "acme").body
	}
	answers["support"] = b.get(t, "/v1/support/trace/req-goal", "sup").body
	answers["replayed"] = b.post(t, "/v1/replay/req-goal", `{}`, "X-Request-Id", "req-again").body
	for name, text := range answers {
		if !strings.Contains(strings.ReplaceAll(text, " ", ""), `"requested_goal":null`) || strings.Contains(text, `"requested_goal":"`) {
			t.Errorf("%s: %s", name, text)
		}
	}
	asked := b.chat(t, `{"optimization_goal":"cost",`+body[1:], "X-Request-Id", "req-asked").body
	b.recorded(t, "req-asked", 1)
	for _, text := range []string{asked, b.get(t, "/v1/support/trace/req-asked", "sup").body} {
		if strings.Count(text, `"requested_goal":"cost"`) != 1 || strings.Contains(text, `"requested_goal":null`) {
			t.Errorf("with a goal: %s", text)
		}
	}
}
