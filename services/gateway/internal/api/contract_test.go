package api_test

import (
	"strings"
	"testing"

	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/reconcile"
	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/platform/apierr"
)

// The reasons that callers may receive are in the contract.
func TestReasonsAreOfTheContract(t *testing.T) {
	for _, reason := range []apierr.Reason{
		routing.ReasonModelNotFound, routing.ReasonProviderUnknown, routing.ReasonModelRetired, policy.ReasonPolicyInvalid,
		steering.ReasonVersionConflict, reconcile.ReasonKeyReused,
		inference.ReasonAllProvidersFailed, inference.ReasonProviderFailed, inference.ReasonProviderAuth,
		inference.ReasonMissingKeys, inference.ReasonContextOverflow, inference.ReasonContentPolicy,
		inference.ReasonStreamInterrupted, inference.ReasonLedgerFull, inference.ReasonModelNotAllowed, inference.ReasonApprovalRequired,
		inference.ReasonApprovalDenied, routing.ReasonCapabilityUnsupported, policy.ReasonDataClassification,
		imagefetch.ReasonImageInvalid, imagefetch.ReasonDocumentInvalid, imagefetch.ReasonTargetNotAllowed, budget.ReasonExceeded, probe.ReasonRunning,
		byok.ReasonRawKeyRefused, byok.ReasonSealedCredentialInvalid, byok.ReasonSecretUnresolved, byok.ReasonProviderUnknown,
		definition.ReasonToolNotFound, definition.ReasonUnreviewed, definition.ReasonChanged, definition.ReasonRejected,
		toolserver.ReasonVersionConflict, toolserver.ReasonTargetNotAllowed,
		trust.ReasonVersionConflict, trust.ReasonReviewerNotIndependent, approval.ReasonDecided, approval.ReasonExpired, approval.ReasonDisplayChanged,
		approval.ReasonProofRequired, approval.ReasonTokensExhausted, approval.ReasonStandingNotAllowed, cache.ReasonPurgeIncomplete,
		run.ReasonRevoked, run.ReasonExpired, run.ReasonExhausted, run.ReasonAborted, organization.ReasonSuspended,
		run.ReasonToolNotAllowed, run.ReasonToolLoop, toolrule.ReasonDenied, toolrule.ReasonRunRequired, toolcall.ReasonUnauthorized, toolcall.ReasonCircuitOpen,
		toolcall.ReasonSamplingRefused, toolcall.ReasonInputRefused,
	} {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("the contract has no reason %q", reason)
		}
	}
}
