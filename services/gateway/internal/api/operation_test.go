package api_test

import (
	"slices"
	"strings"
	"testing"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// The contract lists every operation that the ledger bills, because the edge's plans use that list.
func TestContractListsBilledOperations(t *testing.T) {
	want := []string{"unspecified", ledger.OperationTool, ledger.OperationProbe}
	for _, operation := range provider.Operations() {
		want = append(want, string(operation))
	}
	var listed []string
	for name := range gatewayv1.BilledOperation_value {
		listed = append(listed, strings.ToLower(strings.TrimPrefix(name, "BILLED_OPERATION_")))
	}
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("BilledOperation lists %v, the ledger bills %v", listed, want)
	}
}
