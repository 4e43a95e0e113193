package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/reflect/protoreflect"

	countsv1 "switchyard.dev/gen/go/switchyard/counts/v1"
	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	notifyv1 "switchyard.dev/gen/go/switchyard/notify/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/push"
	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// services are those of the contract that this service serves.
func services() []protoreflect.ServiceDescriptor {
	return []protoreflect.ServiceDescriptor{
		notifyv1.File_switchyard_notify_v1_notify_proto.Services().ByName("NotifyService"),
		notifyv1.File_switchyard_notify_v1_inbox_proto.Services().ByName("InboxService"),
		notifyv1.File_switchyard_notify_v1_push_proto.Services().ByName("PushService"),
		countsv1.File_switchyard_counts_v1_call_counts_proto.Services().ByName("CallCountService"),
	}
}

// The specification's table of notification operations.
func TestContractHasTheSpecifiedPaths(t *testing.T) {
	specified := []string{
		"POST /v1/notify",
		"GET /v1/notifications",
		"PUT /v1/notifications/{id}/read",
		"DELETE /v1/notifications/{id}",
		"GET /v1/push/vapid-public-key",
		"POST /v1/push/registrations",
		"GET /v1/push/registrations",
		"DELETE /v1/push/registrations/{sub_id}",
		"GET /v1/push/history",
	}
	var paths []string
	for _, service := range services() {
		for _, route := range rpc.Routes(service, optionsv1.E_Role) {
			if route.Role == "" {
				t.Errorf("%s has no role", route.Method)
			}
			paths = append(paths, route.Verb+" "+route.Path)
		}
	}
	for _, want := range specified {
		if !slices.Contains(paths, want) {
			t.Errorf("the contract lacks %s", want)
		}
	}
}

func TestReasonsAreOfTheContract(t *testing.T) {
	reasons := []apierr.Reason{
		channel.ReasonNotAccepted, channel.ReasonNotConfigured, channel.ReasonWebPushDisabled, send.ReasonKeyReused, push.ReasonPlatformReserved, push.ReasonSubscription, push.ReasonTooLarge,
	}
	for _, reason := range reasons {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("the contract has no reason %q", reason)
		}
	}
}

func TestPushIsHiddenWhileOff(t *testing.T) {
	b := setup(t)
	for _, route := range rpc.Routes(services()[2], optionsv1.E_Role) {
		path := strings.ReplaceAll(route.Path, "{sub_id}", "x")
		b.do(t, route.Verb, path, "not even JSON").refused(t, 404, "NOTIFY_WEB_PUSH_ENABLED")
		b.do(t, route.Verb, path, "", "Authorization", "").refused(t, 401, "token")
	}
	b.do(t, "GET", "/v1/push", "").refused(t, 404, "not found")
}

// Both settings of web push leave the rest of the contract as it is.
func TestSettingLeavesTheRestUnchanged(t *testing.T) {
	off, on := setup(t), setup(t, withWebPush)
	for _, b := range []*bench{off, on} {
		b.notifyUser(t, "ann", "m")
	}
	for _, query := range []string{"", "?user_id=ann", "?limit=x"} {
		a := volatile.ReplaceAllString(off.do(t, "GET", "/v1/notifications"+query, "").body, "*")
		z := volatile.ReplaceAllString(on.do(t, "GET", "/v1/notifications"+query, "").body, "*")
		if diff := cmp.Diff(a, z); diff != "" {
			t.Errorf("%q (-off +on):\n%s", query, diff)
		}
	}
}

// A page of none is refused by every list that has pages.
func TestLimitOfNone(t *testing.T) {
	b := setup(t, withWebPush)
	lists := 0
	for _, service := range services() {
		for _, route := range rpc.Routes(service, optionsv1.E_Role) {
			name := route.Method[strings.LastIndex(route.Method, "/")+1:]
			if service.Methods().ByName(protoreflect.Name(name)).Input().Fields().ByName("limit") == nil {
				continue
			}
			path := strings.ReplaceAll(route.Path, "{notification_id}", uuid.NewString())
			for _, value := range []string{"0", "00", "-0", ""} {
				b.do(t, route.Verb, path+"?limit="+value, "", "Authorization", "Bearer ops").refused(t, 400, "limit")
			}
			if lists++; route.Verb != "GET" {
				t.Errorf("%s %s has a limit in its body, which this test does not try", route.Verb, route.Path)
			}
		}
	}
	if lists != 6 {
		t.Errorf("%d lists, want 6", lists)
	}
}
