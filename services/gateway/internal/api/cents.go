package api

import (
	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
)

// checkCents refuses a number of cents that can't be the decimal number that its caller wrote, or is finer than the
// ledger.
func checkCents(field string, cents float64) error {
	if _, err := amount.FromCents(cents); err != nil {
		return apierr.Invalid(field, "must be a multiple of 0.0000000001 with at most 15 significant digits")
	}
	return nil
}

// toPrice returns an amount in cents, which the contract bounds to 64 bits of pico-USD.
func toPrice(cents float64) (price.Pico, error) {
	if err := checkCents("price_per_call_cents", cents); err != nil {
		return 0, err
	}
	return price.Pico(amount.Nearest(cents).Pico().Int64()), nil
}
