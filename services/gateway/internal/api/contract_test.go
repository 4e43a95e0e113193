package api_test

import (
	"strings"
	"testing"

	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	"switchyard.dev/services/gateway/internal/inference"
	"switchyard.dev/services/gateway/internal/reconcile"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/gateway/internal/steering"
	"switchyard.dev/services/platform/apierr"
)

// Reasons that callers may read are in the contract.
func TestReasonsAreOfTheContract(t *testing.T) {
	for _, reason := range []apierr.Reason{
		routing.ReasonModelNotFound, routing.ReasonProviderUnknown, routing.ReasonModelRetired, routing.ReasonPolicyInvalid,
		steering.ReasonVersionConflict, reconcile.ReasonKeyReused,
		inference.ReasonAllProvidersFailed, inference.ReasonProviderFailed, inference.ReasonProviderAuth,
		inference.ReasonMissingKeys, inference.ReasonContextOverflow, inference.ReasonContentPolicy,
		inference.ReasonStreamInterrupted, inference.ReasonLedgerFull,
	} {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("the contract has no reason %q", reason)
		}
	}
}
