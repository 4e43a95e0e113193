package api

import (
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/platform/apierr"
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

func (a *API) organizationLimit(w http.ResponseWriter, r *http.Request, _ *line) error {
	organization := r.PathValue("organization_id")
	if err := identifiers("organization_id", organization); err != nil {
		return err
	}
	l, err := a.options.Keys.OrganizationLimit(r.Context(), organization)
	if err != nil {
		return err
	}
	if l == (limit.Limit{}) {
		return apierr.NotFound("rate limit")
	}
	return write(w, http.StatusOK, organizationLimit{organization, newRateLimit(l)})
}

type organizationLimit struct {
	Organization string     `json:"organization_id"`
	RateLimit    *RateLimit `json:"rate_limit"`
}

func (a *API) limitOrganization(w http.ResponseWriter, r *http.Request, l *line) error {
	var body RateLimit
	if err := read(w, r, &body); err != nil {
		return err
	}
	bound, err := body.limit()
	if err != nil {
		return err
	}
	organization := r.PathValue("organization_id")
	if err := identifiers("organization_id", organization); err != nil {
		return err
	}
	if err := a.options.Keys.LimitOrganization(r.Context(), actor(r, l), organization, bound); err != nil {
		return err
	}
	return write(w, http.StatusOK, organizationLimit{organization, newRateLimit(bound)})
}

func (a *API) unlimitOrganization(w http.ResponseWriter, r *http.Request, l *line) error {
	err := a.options.Keys.LimitOrganization(r.Context(), actor(r, l), r.PathValue("organization_id"), limit.Limit{})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
