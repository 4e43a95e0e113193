package api_test

import (
	"strings"
	"testing"

	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
)

func TestReasonsAreOfTheContract(t *testing.T) {
	for _, reason := range []apierr.Reason{
		apikey.ReasonInvalidKey, apikey.ReasonProductNotAllowed, apikey.ReasonPermissionDenied,
		proxy.ReasonUpstreamUnavailable, proxy.ReasonUpstreamTimeout,
	} {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("%s is not an ErrorReason", reason)
		}
	}
}
