package api

import (
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
)

// admit takes a call from the buckets of its key and organization, and reports their state in headers.
func (a *API) admit(w http.ResponseWriter, r *http.Request, key *apikey.Key) error {
	verdict, err := a.options.Limiter.Take(r.Context(), key.Buckets.Key, key.Buckets.Organization)
	announce(w.Header(), verdict)
	return err
}

// announce sets RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-10): q requests per w seconds; r
// of them are left, and the bucket is full again in t seconds.
func announce(h http.Header, v limit.Verdict) {
	if v == (limit.Verdict{}) {
		return
	}
	policy, left := make([]byte, 0, usualBuckets), make([]byte, 0, usualBuckets)
	policy, left = appendBucket(policy, left, "key", v.Key)
	policy, left = appendBucket(policy, left, "organization", v.Organization)
	values := []string{string(policy), string(left)}
	h["Ratelimit-Policy"], h["Ratelimit"] = values[:1:1], values[1:]
}

// usualBuckets is the capacity reserved for the value of a header with two buckets, in bytes.
const usualBuckets = 96

// appendBucket adds an item to both lists, or nothing without a limit.
func appendBucket(policy, left []byte, name string, s limit.BucketState) (policies, lefts []byte) {
	if s.Limit == (limit.Limit{}) {
		return policy, left
	}
	if len(policy) > 0 {
		policy, left = append(policy, ", "...), append(left, ", "...)
	}
	policy = strconv.AppendQuote(policy, name)
	policy = strconv.AppendInt(append(policy, ";q="...), int64(s.Limit.Requests), 10)
	policy = strconv.AppendInt(append(policy, ";w="...), int64(s.Limit.Window/time.Second), 10)
	left = strconv.AppendQuote(left, name)
	left = strconv.AppendInt(append(left, ";r="...), int64(s.Remaining), 10)
	left = strconv.AppendInt(append(left, ";t="...), int64((s.Full+time.Second-1)/time.Second), 10)
	return policy, left
}
