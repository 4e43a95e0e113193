package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	countsv1 "switchyard.dev/gen/go/switchyard/counts/v1"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/callcount/countfeed"
)

// CallCounts lists the counts of customers' calls; see countfeed.Pager.
type CallCounts interface {
	List(ctx context.Context, cursor string, limit int) (page countfeed.Page, next string, err error)
}

// callCountServer implements countsv1.CallCountServiceServer.
type callCountServer struct {
	countsv1.UnimplementedCallCountServiceServer

	counts CallCounts
}

// ListCallCounts implements the method of that name.
func (s *callCountServer) ListCallCounts(ctx context.Context, r *countsv1.ListCallCountsRequest) (*countsv1.ListCallCountsResponse, error) {
	page, next, err := s.counts.List(ctx, r.GetCursor(), int(r.GetLimit()))
	if err != nil {
		return nil, err
	}
	out := &countsv1.ListCallCountsResponse{NextCursor: next, Incomplete: page.Incomplete}
	for _, sum := range page.Sums {
		out.Counts = append(out.Counts, &countsv1.CallCount{
			OrganizationId: sum.Organization, KeyId: sum.Key, Metric: sum.Metric, Minute: timestamppb.New(sum.Minute),
			UserId: sum.User, Tags: sum.Tags, Calls: int32(sum.Calls),
		})
	}
	return out, nil
}

// takeCount takes the count of a call whose record will store it; nil for a call that counts nothing.
func takeCount(ctx context.Context) *callcount.Count {
	if count, ok := callcount.Take(ctx, time.Now()); ok {
		return &count
	}
	return nil
}
