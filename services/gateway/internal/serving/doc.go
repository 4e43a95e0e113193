// Package serving is the district of a request's way to a vendor and back.
//
// The API calls inference, and nothing else starts a call to a vendor. From the bottom up: health, hedge and cache, which
// know nothing of a plan; routing, which plans by the policy; admission, which decides who may call now; trace, which keeps the
// record of a request; conversation, which keeps what callers may refer to; inference, the pipeline that puts them in order.
package serving
