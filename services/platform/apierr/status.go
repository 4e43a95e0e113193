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
	if !ok || st.Code() == codes.OK {
		return nil
	}
	kind := kindOfCode(st.Code())
	e := &Error{Kind: kind, Reason: kind.traits().reason, Text: st.Message(), Cause: err}
	if kind == KindInternal {
		return Internal(err)
	}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != Domain {
				continue
			}
			e.Reason, e.Class, e.Cause = Reason(d.GetReason()), Class(d.GetMetadata()[metaClass]), nil
			if n, err := strconv.Atoi(d.GetMetadata()[metaStatus]); err == nil {
				if k, ok := kindOfStatus(n); ok {
					e.Kind = k
				}
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration().Truncate(time.Millisecond)
		}
	}
	return e
}
