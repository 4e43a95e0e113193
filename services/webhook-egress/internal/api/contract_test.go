package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/api"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
)

// Part B of the specification, without the two open paths that are not methods.
var specified = []string{
	"POST /v1/deliveries", "GET /v1/deliveries/{id}",
	"POST /v1/endpoints", "GET /v1/endpoints", "GET /v1/endpoints/{id}", "PATCH /v1/endpoints/{id}", "DELETE /v1/endpoints/{id}",
	"POST /v1/events",
}

func TestContract(t *testing.T) {
	paths := map[string]bool{}
	for _, file := range api.Files() {
		for i := range file.Services().Len() {
			for _, route := range rpc.Routes(file.Services().Get(i), optionsv1.E_Role) {
				if route.Role == "" {
					t.Errorf("%s has no role", route.Method)
				}
				paths[route.Verb+" "+route.Path] = true
			}
		}
	}
	for _, path := range specified {
		if !paths[path] {
			t.Errorf("the contract lacks %s; it has %v", path, slices.Sorted(maps.Keys(paths)))
		}
	}
}

func TestReasonsAreOfTheContract(t *testing.T) {
	for _, reason := range []apierr.Reason{
		delivery.ReasonPayloadTooLarge, delivery.ReasonHeaderNotAllowed, delivery.ReasonTargetNotAllowed, delivery.ReasonDeadlinePassed,
		delivery.ReasonAlreadyFinished, delivery.ReasonInFlight, delivery.ReasonEndpointDeleted, delivery.ReasonKeyReused,
		endpoint.ReasonSecretRequired, endpoint.ReasonSecretNotAllowed,
	} {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("%s is no value of ErrorReason", reason)
		}
	}
}

// A page of none is refused by every list that has pages.
func TestLimitOfNone(t *testing.T) {
	h := newServer(t, &domain{}).Handler()
	lists := 0
	for _, file := range api.Files() {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for _, route := range rpc.Routes(service, optionsv1.E_Role) {
				name := route.Method[strings.LastIndex(route.Method, "/")+1:]
				if service.Methods().ByName(protoreflect.Name(name)).Input().Fields().ByName("limit") == nil {
					continue
				}
				path := strings.ReplaceAll(route.Path, "{id}", "x")
				for _, value := range []string{"0", "00", "-0", ""} {
					w, document := call(t, h, route.Verb, path+"?limit="+value, "")
					if w.Code != http.StatusBadRequest || !strings.Contains(fmt.Sprint(document["reason"]), "limit") {
						t.Errorf("%s?limit=%s: status %d, %v", path, value, w.Code, document)
					}
				}
				if lists++; route.Verb != "GET" {
					t.Errorf("%s %s has a limit in its body, which this test does not try", route.Verb, route.Path)
				}
			}
		}
	}
	if lists != 8 {
		t.Errorf("%d lists, want 8", lists)
	}
}
