package apierr

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Kind is the category of an error. It determines status, code and default class.
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
	KindGone                         // 410
	KindTooLarge                     // 413
	KindUnprocessable                // 422
	KindUpgradeRequired              // 426
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

// statusClientClosed is the common status for a caller that disconnected before the response (nginx).
const statusClientClosed = 499

// table maps kinds to statuses, codes and classes. It is the only such table.
var table = [...]traits{
	KindInternal:         {http.StatusInternalServerError, codes.Internal, ClassServerError, ReasonInternal},
	KindInvalid:          {http.StatusBadRequest, codes.InvalidArgument, ClassPolicy, ReasonInvalidRequest},
	KindUnauthenticated:  {http.StatusUnauthorized, codes.Unauthenticated, ClassAuth, ReasonUnauthenticated},
	KindForbidden:        {http.StatusForbidden, codes.PermissionDenied, ClassAuth, ReasonForbidden},
	KindNotFound:         {http.StatusNotFound, codes.NotFound, ClassPolicy, ReasonNotFound},
	KindMethodNotAllowed: {http.StatusMethodNotAllowed, codes.Unimplemented, ClassPolicy, ReasonMethodNotAllowed},
	KindConflict:         {http.StatusConflict, codes.Aborted, ClassPolicy, ReasonConflict},
	KindGone:             {http.StatusGone, codes.NotFound, ClassPolicy, ReasonNotFound},
	KindTooLarge:         {http.StatusRequestEntityTooLarge, codes.InvalidArgument, ClassPolicy, ReasonTooLarge},
	KindUnprocessable:    {http.StatusUnprocessableEntity, codes.FailedPrecondition, ClassPolicy, ReasonUnprocessable},
	KindUpgradeRequired:  {http.StatusUpgradeRequired, codes.Unimplemented, ClassPolicy, ReasonUpgradeRequired},
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

// HTTPStatus returns the status code of the kind on the JSON face.
func (k Kind) HTTPStatus() int { return k.traits().status }

// Code returns the status code of the kind on the gRPC face.
func (k Kind) Code() codes.Code { return k.traits().code }

// kindOfStatus returns the kind of a peer's HTTP status. Peers send it with the gRPC code, which several kinds share.
func kindOfStatus(status int) (Kind, bool) {
	for kind, t := range table {
		if t.status == status {
			return Kind(kind), true
		}
	}
	return KindInternal, false
}
