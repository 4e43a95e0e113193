package rpc_test

import (
	"math"
	"testing"

	"google.golang.org/genproto/googleapis/api/distribution"

	"switchyard.dev/services/platform/rpc"
)

// A number that is not finite passes every bound, so none is taken, however it is written.
func TestNumbersAreFinite(t *testing.T) {
	const refused = "mean: must be a finite number"
	for text, want := range map[string]string{
		`{"mean":1.5}`:                  "",
		`{"mean":"1.5"}`:                "",
		`{"mean":"NaN"}`:                refused,
		`{"mean":"Infinity"}`:           refused,
		`{"mean":"-Infinity"}`:          refused,
		`{"mean":"N\u0061N"}`:           refused,
		`{"mean":"\u0049nfinit\u0079"}`: refused,
	} {
		var value distribution.Distribution
		if err := rpc.NewCodecForTest(echoContract.rawJSON, nil).Unmarshal([]byte(text), &value); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := errorText(rpc.ValidateRead(&value, []byte(text))); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, number := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		value := &distribution.Distribution{BucketOptions: &distribution.Distribution_BucketOptions{
			Options: &distribution.Distribution_BucketOptions_ExplicitBuckets{
				ExplicitBuckets: &distribution.Distribution_BucketOptions_Explicit{Bounds: []float64{1, number}},
			},
		}}
		if got, want := errorText(rpc.Validate(value)), "bucket_options.explicit_buckets.bounds[1]: must be a finite number"; got != want {
			t.Errorf("%v: %q, want %q", number, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
