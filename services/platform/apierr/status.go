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

// GRPCStatus returns the error's gRPC status: the kind's code, the text, an ErrorInfo with reason, class and HTTP
// status, a RetryInfo if RetryAfter is set, and a BadRequest with Violations if there are any.
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
	if err == nil && len(e.Violations) > 0 {
		detailed, err = detailed.WithDetails(badRequest(e.Violations))
	}
	if err != nil {
		return st
	}
	return detailed
}

func badRequest(violations []Violation) *errdetails.BadRequest {
	detail := &errdetails.BadRequest{}
	for _, v := range violations {
		detail.FieldViolations = append(detail.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Pointer, Description: v.Rule})
	}
	return detail
}

// fromStatus converts a gRPC status: one of another Switchyard service with all its details, one of a library by its
// code. It returns nil if err is not a status.
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

// fromDetails converts a status made by GRPCStatus back, and returns nil for any other.
func fromDetails(st *status.Status) *Error {
	var e *Error
	var wait time.Duration
	var violations []Violation
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
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				violations = append(violations, Violation{v.GetField(), v.GetDescription()})
			}
		}
	}
	if e != nil {
		e.RetryAfter, e.Violations = wait, violations
	}
	return e
}

// fromCode converts a status that no Switchyard service made: of grpc itself, of grpc-gateway or of a vendor's library.
// Only texts about the request are kept. The others name addresses and resources, and describe a failure of this
// service, not of its caller.
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
		return New(KindUnavailable, ReasonUnavailable, textUnreachable)
	default:
		return Internal(nil)
	}
}
