package apierr

import (
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the errdetails.ErrorInfo domain of every Switchyard error.
const Domain = "switchyard.dev"

const (
	metaStatus = "http_status"
	metaClass  = "error_class"
)

// GRPCStatus renders the error for the gRPC face: the kind's code, the text, an
// ErrorInfo with reason, class and HTTP status, and RetryInfo when there is a hint.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.Kind.Code(), e.Text)
	info := &errdetails.ErrorInfo{
		Reason: string(e.Reason),
		Domain: Domain,
		Metadata: map[string]string{
			metaStatus: strconv.Itoa(e.Kind.HTTPStatus()),
			metaClass:  string(e.ErrorClass()),
		},
	}
	detailed, err := st.WithDetails(info)
	if err == nil && e.RetryAfter > 0 {
		detailed, err = detailed.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if err != nil {
		return st
	}
	return detailed
}

// fromStatus reads an error that came as a gRPC status: from another Switchyard
// service with all its details, from a library by its code. It returns nil when
// err is no status.
func fromStatus(err error) *Error {
	st, ok := status.FromError(err)
	switch {
	case !ok || st.Code() == codes.OK:
		return nil
	case st.Code() == codes.Internal:
		return Internal(err)
	}
	if e := fromDetails(st); e != nil {
		return e
	}
	return fromCode(st).Wrap(err)
}

// fromDetails gives back what GRPCStatus rendered, nil for any other status.
func fromDetails(st *status.Status) *Error {
	var e *Error
	var wait time.Duration
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			n, err := strconv.Atoi(d.GetMetadata()[metaStatus])
			kind, known := kindOfStatus(n)
			if d.GetDomain() == Domain && err == nil && known {
				e = &Error{Kind: kind, Reason: Reason(d.GetReason()), Class: Class(d.GetMetadata()[metaClass]), Text: st.Message()}
			}
		case *errdetails.RetryInfo:
			wait = d.GetRetryDelay().AsDuration().Truncate(time.Millisecond)
		}
	}
	if e != nil {
		e.RetryAfter = wait
	}
	return e
}

// fromCode reads a status that no service made: of grpc itself, of grpc-gateway,
// or of a vendor's library. Only what speaks of the request keeps its text; the
// others name addresses and resources, and refuse this service, not its caller.
func fromCode(st *status.Status) *Error {
	switch st.Code() {
	case codes.InvalidArgument:
		return New(KindInvalid, ReasonInvalidRequest, st.Message())
	case codes.Unimplemented:
		return New(KindNotImplemented, ReasonNotImplemented, st.Message())
	case codes.Canceled:
		return cancelled()
	case codes.DeadlineExceeded:
		return timeout()
	case codes.Unavailable:
		return New(KindUnavailable, ReasonUnavailable, "a service that is needed for this is not available")
	default:
		return Internal(nil)
	}
}
