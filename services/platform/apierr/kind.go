package apierr

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Kind is the family of an error: it decides status, code and default class.
type Kind int

// The kinds, each with its HTTP status.
const (
	KindInternal         Kind = iota // 500
	KindInvalid                      // 400
	KindUnauthenticated              // 401
	KindForbidden                    // 403
	KindNotFound                     // 404
	KindMethodNotAllowed             // 405
	KindConflict                     // 409
	KindTooLarge                     // 413
	KindUnprocessable                // 422
	KindRateLimited                  // 429
	KindCanceled                     // 499
	KindNotImplemented               // 501
	KindUpstream                     // 502
	KindUnavailable                  // 503
	KindTimeout                      // 504
)

type traits struct {
	status int
	code   codes.Code
	class  Class
	reason Reason
}

// statusClientClosed is the usual status of a caller that left before the answer.
const statusClientClosed = 499

// table is the only place where kinds meet statuses, codes and classes.
var table = [...]traits{
	KindInternal:         {http.StatusInternalServerError, codes.Internal, ClassServerError, ReasonInternal},
	KindInvalid:          {http.StatusBadRequest, codes.InvalidArgument, ClassPolicy, ReasonInvalidRequest},
	KindUnauthenticated:  {http.StatusUnauthorized, codes.Unauthenticated, ClassAuth, ReasonUnauthenticated},
	KindForbidden:        {http.StatusForbidden, codes.PermissionDenied, ClassAuth, ReasonForbidden},
	KindNotFound:         {http.StatusNotFound, codes.NotFound, ClassPolicy, ReasonNotFound},
	KindMethodNotAllowed: {http.StatusMethodNotAllowed, codes.Unimplemented, ClassPolicy, ReasonMethodNotAllowed},
	KindConflict:         {http.StatusConflict, codes.Aborted, ClassPolicy, ReasonConflict},
	KindTooLarge:         {http.StatusRequestEntityTooLarge, codes.InvalidArgument, ClassPolicy, ReasonTooLarge},
	KindUnprocessable:    {http.StatusUnprocessableEntity, codes.FailedPrecondition, ClassPolicy, ReasonUnprocessable},
	KindRateLimited:      {http.StatusTooManyRequests, codes.ResourceExhausted, ClassRateLimit, ReasonRateLimited},
	KindCanceled:         {statusClientClosed, codes.Canceled, ClassTransient, ReasonCancelled},
	KindNotImplemented:   {http.StatusNotImplemented, codes.Unimplemented, ClassPolicy, ReasonNotImplemented},
	KindUpstream:         {http.StatusBadGateway, codes.Unavailable, ClassServerError, ReasonUnavailable},
	KindUnavailable:      {http.StatusServiceUnavailable, codes.Unavailable, ClassTransient, ReasonUnavailable},
	KindTimeout:          {http.StatusGatewayTimeout, codes.DeadlineExceeded, ClassTransient, ReasonTimeout},
}

func (k Kind) traits() traits {
	if k < 0 || int(k) >= len(table) {
		return table[KindInternal]
	}
	return table[k]
}

// HTTPStatus is the status code of the kind on the JSON face.
func (k Kind) HTTPStatus() int { return k.traits().status }

// Code is the status code of the kind on the gRPC face.
func (k Kind) Code() codes.Code { return k.traits().code }

// kindOfStatus finds the kind that a peer's HTTP status (carried beside a gRPC
// code that several kinds share) stands for.
func kindOfStatus(status int) (Kind, bool) {
	for kind, t := range table {
		if t.status == status {
			return Kind(kind), true
		}
	}
	return KindInternal, false
}
