package api

import (
	"context"
	"fmt"
	"time"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/platform/apierr"
)

// ListRuns returns a page of an organization's authorities.
func (s *runServer) ListRuns(ctx context.Context, m *gatewayv1.ListRunsRequest) (*gatewayv1.ListRunsResponse, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	f := run.Filter{Organization: organization, Parent: m.GetParentRunId(), Status: run.Status(m.GetStatus())}
	if f.Since, f.Until, err = toWindow(m.GetSince(), m.GetUntil()); err != nil {
		return nil, err
	}
	page := newKeyset("runs", organization, m.GetParentRunId(), m.GetStatus(), f.Since.String(), f.Until.String())
	if err := startAfter(&f, page, m.GetCursor()); err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	f.Limit = limit + 1
	found, err := s.runs.List(ctx, f, time.Now())
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	out := &gatewayv1.ListRunsResponse{}
	for i, used := range found {
		if i == limit {
			last := found[i-1].Run
			out.NextCursor = page.cursor(last.CreatedAt.UTC().Format(time.RFC3339Nano), last.ID)
			break
		}
		out.Runs = append(out.Runs, toAuthority(used.Run, used.Usage))
	}
	return out, nil
}

// startAfter sets the last run of the page before, if there was one.
func startAfter(f *run.Filter, page keyset, cursor string) error {
	last, err := page.read(cursor, 2)
	if err != nil || last[0] == "" {
		return err
	}
	if f.BeforeCreated, err = time.Parse(time.RFC3339Nano, last[0]); err != nil {
		return apierr.Invalid("cursor", "must be the next_cursor of a page with the same filters")
	}
	f.BeforeID = last[1]
	return nil
}
