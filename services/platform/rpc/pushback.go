package rpc

import (
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"switchyard.dev/services/platform/apierr"
)

// pushbackKey is the trailer by which a server tells gRPC clients with a retry policy when to retry a failed call, in
// milliseconds; a negative number forbids it (gRFC A6). A policy knows codes only, which permanent errors share with
// temporary ones.
const pushbackKey = "grpc-retry-pushback-ms"

// maxPushback is the longest wait that is left to a client's policy, which holds the call for so long. For a longer one
// the client gets the error, whose RetryInfo has the wait.
const maxPushback = 10 * time.Second

// pushback returns the trailer of a failed call; nil if the client's own policy decides.
func pushback(err error) metadata.MD {
	e := apierr.From(err)
	switch {
	case !e.ErrorClass().Retryable(), e.RetryAfter > maxPushback:
		return metadata.Pairs(pushbackKey, "-1")
	case e.RetryAfter > 0:
		return metadata.Pairs(pushbackKey, strconv.FormatInt(e.RetryAfter.Milliseconds(), 10))
	}
	return nil
}
