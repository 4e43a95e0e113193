//go:build e2e

package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	"switchyard.dev/deploy/contract"
	"switchyard.dev/deploy/dev/stack"
	countsv1 "switchyard.dev/gen/go/switchyard/counts/v1"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
)

// contracts are the proto packages of the capability services.
var contracts = map[stack.Service]protoreflect.FullName{
	stack.Gateway:       gatewayv1.File_switchyard_gateway_v1_chat_proto.Package(),
	stack.WebhookEgress: webhooksv1.File_switchyard_webhooks_v1_deliveries_proto.Package(),
	stack.Notify:        notifyv1.File_switchyard_notify_v1_notify_proto.Package(),
}

// serviceContract is the operations and gRPC services of a capability service.
type serviceContract struct {
	member     stack.Service
	operations []contract.Operation
	services   []string // full names of the gRPC services
}

func serviceContracts() (all []serviceContract) {
	for member, pkg := range contracts {
		c := serviceContract{member: member}
		for _, of := range []protoreflect.FullName{countsv1.File_switchyard_counts_v1_call_counts_proto.Package(), pkg} {
			operations, services := contract.Operations(of)
			c.operations, c.services = append(c.operations, operations...), append(c.services, services...)
		}
		all = append(all, c)
	}
	return all
}

// Every operation that isn't public refuses unauthenticated callers and callers that don't have its role, before it
// does anything.
func TestRoles(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, c := range serviceContracts() {
		t.Run(string(c.member), func(t *testing.T) {
			unauthenticated := h.anonymous(c.member)
			tokens := map[optionsv1.Role]client{
				optionsv1.Role_ROLE_SERVICE: h.service(c.member, unique("org")),
				optionsv1.Role_ROLE_SUPPORT: unauthenticated.bearer(h.Secrets().Support).with("X-Organization-Id", unique("org")),
			}
			check := func(t *testing.T, a answer, status int, code string) {
				t.Helper()
				if c.member == stack.Notify {
					a.refusedWith(t, status, "")
					return
				}
				a.refused(t, status, code, "")
			}
			for _, o := range c.operations {
				t.Run(o.Method, func(t *testing.T) {
					if o.Role == optionsv1.Role_ROLE_PUBLIC {
						if a := unauthenticated.do(t, o.Verb, o.At("x"), nil); a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
							t.Errorf("a public operation answered %d: %s", a.status, a.body)
						}
						return
					}
					a := unauthenticated.do(t, o.Verb, o.At("x"), nil)
					check(t, a, http.StatusUnauthorized, "unauthenticated")
					if a.header.Get("WWW-Authenticate") == "" {
						t.Error("401 without WWW-Authenticate")
					}
					check(t, unauthenticated.bearer("unknown").do(t, o.Verb, o.At("x"), nil), http.StatusUnauthorized, "unauthenticated")
					for role, client := range tokens {
						if role != o.Role {
							check(t, client.do(t, o.Verb, o.At("x"), nil), http.StatusForbidden, "forbidden")
						}
					}
				})
			}
		})
	}
}

// No reading operation fails, not even for a name that does not exist. The test calls them as an
// operator, who may call all of them.
func TestReadsAnswer(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, c := range serviceContracts() {
		t.Run(string(c.member), func(t *testing.T) {
			operator := h.operator(c.member).with("X-Organization-Id", unique("org"))
			for _, o := range c.operations {
				if o.Verb != http.MethodGet {
					continue
				}
				t.Run(o.Method, func(t *testing.T) {
					a := operator.get(t, pathOf(o, "x"))
					if a.status >= http.StatusInternalServerError {
						t.Errorf("answered %d: %s", a.status, shorten(a.body))
					}
				})
			}
		})
	}
}

func TestReflectionAndHealthOverGRPC(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, c := range serviceContracts() {
		t.Run(string(c.member), func(t *testing.T) {
			conn := h.grpc(t, c.member)
			var listed []string
			for _, name := range reflected(t, reflectionpb.NewServerReflectionClient(conn)) {
				if strings.HasPrefix(name, "switchyard.") {
					listed = append(listed, name)
				}
			}
			slices.Sort(listed)
			if diff := cmp.Diff(c.services, listed); diff != "" {
				t.Errorf("services by reflection (-contract +got):\n%s", diff)
			}
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			health, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
			if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("health %v, %v", health, err)
			}
		})
	}
}

// reflected returns the services that reflection lists without a token, as grpcurl does.
func reflected(t *testing.T, client reflectionpb.ServerReflectionClient) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	stream, err := client.ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	if err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range response.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	return names
}

func TestProbesAndMetrics(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, member := range stack.Services {
		t.Run(string(member), func(t *testing.T) {
			open := h.anonymous(member)
			for _, path := range []string{"/health", "/health/live", "/health/ready"} {
				if found := open.get(t, path).fields(t, http.StatusOK, "status"); found["status"] != "ok" {
					t.Errorf("%s: answer %v, want status ok", path, found)
				}
			}
			if path, ok := postPaths[member]; ok { // a call that the metrics count
				h.service(member, unique("org")).post(t, path, object{})
			}
			open.get(t, "/product/v1/_meta/catalog")
			if member == stack.Edge { // Customers have no access to the metrics.
				open.get(t, "/metrics").want(t, http.StatusNotFound)
			}
			a := h.metrics(member).get(t, "/metrics").want(t, http.StatusOK)
			if text := string(a.body); !strings.Contains(text, "# TYPE switchyard_") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
				t.Errorf("metrics of type %q: %s", a.header.Get("Content-Type"), shorten(a.body))
			}
		})
	}
}

// postPaths holds a path of each service that takes a POST and refuses an empty body.
var postPaths = map[stack.Service]string{stack.Gateway: chatPath, stack.WebhookEgress: deliveryPath, stack.Notify: notifyPath}

func TestRequestID(t *testing.T) {
	t.Parallel()
	h := use(t)
	for _, member := range stack.Services {
		t.Run(string(member), func(t *testing.T) {
			open := h.anonymous(member)
			for _, path := range []string{"/health", "/nothing"} {
				if got := open.with("X-Request-Id", "kept-4711").get(t, path).header.Get("X-Request-Id"); got != "kept-4711" {
					t.Errorf("%s: %q, want the caller's", path, got)
				}
				for _, bad := range []string{"", "two words", strings.Repeat("x", 5000), "a\tb"} {
					if got := open.with("X-Request-Id", bad).get(t, path).header.Get("X-Request-Id"); got == "" || got == bad {
						t.Errorf("%s: %q in place of %q", path, got, shorten([]byte(bad)))
					}
				}
			}
		})
	}
	// Behind the edge, the service answers under the same id.
	ai := h.customer(t, unique("org"), "ai", "read").with("X-Request-Id", "kept-4712")
	ai.post(t, chatRoute, ask("no-such-model", "x")).refused(t, http.StatusNotFound, "model_not_found", "")
}

func TestRoutingErrors(t *testing.T) {
	t.Parallel()
	h := use(t)
	for member, path := range postPaths {
		t.Run(string(member), func(t *testing.T) {
			service := h.service(member, unique("org"))
			for name, tt := range map[string]struct {
				a      answer
				status int
				code   string
			}{
				"an unknown path":    {service.get(t, "/v1/nothing"), 404, "not_found"},
				"outside of /v1":     {service.get(t, "/nothing"), 404, "not_found"},
				"another method":     {service.do(t, http.MethodPatch, path, nil), 405, "method_not_allowed"},
				"bad JSON":           {service.post(t, path, `{"a":`), 400, "invalid_request"},
				"two JSON documents": {service.post(t, path, `{} {}`), 400, "invalid_request"},
			} {
				t.Run(name, func(t *testing.T) {
					if member == stack.Notify {
						tt.a.refusedWith(t, tt.status, "")
					} else {
						tt.a.refused(t, tt.status, tt.code, "")
					}
					if allow := tt.a.header.Get("Allow"); tt.status == http.StatusMethodNotAllowed && !strings.Contains(allow, http.MethodPost) {
						t.Errorf("Allow: %q", allow)
					}
				})
			}
		})
	}
}

// Callers that accept application/problem+json get errors as RFC 9457 documents.
func TestProblemDocuments(t *testing.T) {
	t.Parallel()
	h := use(t)
	check := func(t *testing.T, a answer, status int, code string) {
		t.Helper()
		found := a.fields(t, status, "type", "title", "status", "detail", "code")
		if found["code"] != code || found["status"] != float64(status) || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("content type %s, body %s", a.header.Get("Content-Type"), a.body)
		}
	}
	const accept = "application/problem+json"
	for member, path := range postPaths {
		t.Run(string(member), func(t *testing.T) {
			check(t, h.service(member, unique("org")).with("Accept", accept).post(t, path, `{"colour":"red"}`), 400, "invalid_request")
			check(t, h.anonymous(member).with("Accept", accept).post(t, path, `{}`), 401, "unauthenticated")
			check(t, h.service(member, unique("org")).with("Accept", accept).get(t, "/v1/nothing"), 404, "not_found")
		})
	}
	t.Run("edge", func(t *testing.T) {
		check(t, h.anonymous(stack.Edge).with("Accept", accept).post(t, chatRoute, `{}`), 401, "invalid_key")
		check(t, h.customer(t, unique("org"), "notifications", "write").with("Accept", accept).post(t, sendRoute, `{"channels":["web_push"],"message":"m"}`), 400, "web_push_disabled")
	})
}
