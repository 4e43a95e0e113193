package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/services/gateway/internal/custody/byok"
	"switchyard.dev/services/gateway/internal/custody/exposure"
	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/operations/probe"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/callcount/countfeed"
	"switchyard.dev/services/platform/feed"
)

// recorder calls each registered method with an empty request.
type recorder struct {
	t             *testing.T
	served        int
	unimplemented []string
}

func (r *recorder) RegisterService(desc *grpc.ServiceDesc, impl any) {
	empty := func(any) error { return nil }
	for _, method := range desc.Methods {
		_, err := method.Handler(impl, r.t.Context(), empty, nil)
		r.note(desc, method.MethodName, err)
	}
	for _, stream := range desc.Streams {
		r.note(desc, stream.StreamName, stream.Handler(impl, emptyStream{ctx: r.t}))
	}
}

func (r *recorder) note(desc *grpc.ServiceDesc, method string, err error) {
	if status.Code(err) == codes.Unimplemented {
		r.unimplemented = append(r.unimplemented, strings.TrimPrefix(desc.ServiceName, "switchyard.gateway.v1.")+"/"+method)
		return
	}
	r.served++
}

// No method of the contract is unimplemented.
func TestEveryMethodIsServed(t *testing.T) {
	r := &recorder{t: t}
	register(r, &inferenceServer{}, Dependencies{Approvals: noApprovals{}, Prober: noProber{}, Traces: noArchive{}, Byok: noByok{}, Organizations: noOrganizations{}, Runs: noRuns{}, Policies: noPolicies{}, Steering: noSteering{}, Catalog: noCatalog{}, Status: noStatus{}, Reconciler: noReconciler{}, Prices: noPrices, Usage: noUsage{}, Counts: noCounts{}, Exposure: noExposure{}, Audit: noAudit{}, Canonical: func(string) (string, bool) { return "", false }})
	if r.unimplemented != nil || r.served != 88 {
		t.Errorf("%d served, unimplemented: %v", r.served, r.unimplemented)
	}
}

type noCounts struct{ CallCounts }

func (noCounts) List(context.Context, string, int) (countfeed.Page, string, error) {
	return countfeed.Page{}, "", errors.New("none")
}

type noOrganizations struct{ Organizations }

func (noOrganizations) SetStatus(context.Context, string, organization.Change) (organization.Status, error) {
	return organization.Status{}, errors.New("none")
}

func (noOrganizations) Spend(context.Context, string, time.Time) (organization.Spend, error) {
	return organization.Spend{}, errors.New("none")
}

type noByok struct{ CredentialManager }

func (noByok) SealingKey() (sealing.Public, error) { return sealing.Public{}, errors.New("none") }

func (noByok) Stale(context.Context, byok.StaleFilter) ([]byok.Config, error) {
	return nil, errors.New("none")
}

type noRuns struct{ Runs }

func (noRuns) OrganizationOf(context.Context, string) (string, error) { return "", errors.New("none") }

func (noRuns) List(context.Context, run.Filter, time.Time) ([]run.Used, error) {
	return nil, errors.New("none")
}

type noUsage struct{ ledger.Feed }

func (noUsage) Charges(context.Context, ledger.Filter, feed.Position, int) (ledger.ChargePage, error) {
	return ledger.ChargePage{}, errors.New("none")
}

type noExposure struct{ exposure.Store }

func (noExposure) Radius(context.Context, exposure.Query) (exposure.Radius, error) {
	return exposure.Radius{}, errors.New("none")
}

type noAudit struct{}

func (noAudit) List(context.Context, audit.Filter) ([]audit.Entry, error) {
	return nil, errors.New("none")
}

type noProber struct{ Prober }

func (noProber) Canary(context.Context, string, string) (*probe.Report, error) {
	return nil, errors.New("none")
}

func (noProber) Consistency(context.Context, probe.Question) (*probe.Consistency, error) {
	return nil, errors.New("none")
}

func (noProber) Liveness(context.Context, string) (*probe.Liveness, error) {
	return nil, errors.New("none")
}

type noArchive struct{ Archive }

func (noArchive) Get(context.Context, string, string) (trace.Record, error) {
	return trace.Record{}, errors.New("none")
}

func (noArchive) Latest(context.Context, string, string) ([]trace.Record, error) {
	return nil, errors.New("none")
}

type noPolicies struct{}

func (noPolicies) Reload(context.Context) (policy.Reloaded, error) {
	return policy.Reloaded{}, errors.New("none")
}

type emptyStream struct {
	grpc.ServerStream

	ctx *testing.T
}

func (emptyStream) RecvMsg(any) error           { return nil }
func (emptyStream) SendMsg(any) error           { return errors.New("nothing is sent") }
func (emptyStream) SetHeader(metadata.MD) error { return nil }

func (s emptyStream) Context() context.Context { return s.ctx.Context() }
