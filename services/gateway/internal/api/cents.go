package api

import (
	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/platform/apierr"
)

// checkCents returns an error if a number of cents has more than 15 significant digits, so that a float64 may differ
// from the decimal that the caller wrote, or is finer than a pico-USD.
func checkCents(field string, cents float64) error {
	if _, err := amount.FromCents(cents); err != nil {
		return apierr.Invalid(field, "must be a multiple of 0.0000000001 with at most 15 significant digits")
	}
	return nil
}

// toPrice converts cents to pico-USD. The contract bounds cents so that the result fits in 64 bits.
func toPrice(cents float64) (price.Pico, error) {
	if err := checkCents("price_per_call_cents", cents); err != nil {
		return 0, err
	}
	return price.Pico(amount.Nearest(cents).Pico().Int64()), nil
}
