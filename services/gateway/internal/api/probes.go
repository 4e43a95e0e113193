package api

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/operations/probe"
)

// Prober sends real requests to models; see package probe.
type Prober interface {
	Canary(ctx context.Context, provider, model string) (*probe.Report, error)
	Consistency(ctx context.Context, q probe.Question) (*probe.Consistency, error)
	Liveness(ctx context.Context, provider string) (*probe.Liveness, error)
}

// defaultSampleTokens bounds the answers of a consistency check that sets no bound.
const defaultSampleTokens = 256

// probeServer serves the probes, which cost money.
type probeServer struct {
	gatewayv1.UnimplementedProbeServiceServer

	prober Prober
	// canonical returns a provider's name for an alias.
	canonical func(name string) (string, bool)
}

// name returns a provider's name for an alias; an unknown name stays as it is.
func (s *probeServer) name(provider string) string {
	if name, ok := s.canonical(provider); ok {
		return name
	}
	return provider
}

// RunCanary runs the golden set.
func (s *probeServer) RunCanary(ctx context.Context, m *gatewayv1.RunCanaryRequest) (*gatewayv1.CanaryReport, error) {
	report, err := s.prober.Canary(ctx, s.name(m.GetProvider()), m.GetModel())
	if err != nil {
		return nil, fmt.Errorf("canary: %w", err)
	}
	out := &gatewayv1.CanaryReport{
		Verdict: "pass", Provider: report.Provider, Model: report.Model, Passed: int32(report.Passed), Failed: int32(report.Failed),
		Usage: toUsageProto(report.Usage), GoldenSetVersion: report.Version, StartedAt: timestamppb.New(report.Started), DurationMs: inMilliseconds(report.Took),
	}
	if report.Failed > 0 {
		out.Verdict, out.ExitCode = "fail", 1
	}
	for _, v := range report.Verdicts {
		out.Cases = append(out.Cases, &gatewayv1.CanaryCase{
			Name: v.Name, Check: v.Check, Passed: v.Passed, Reason: toNullable(v.Reason), Answer: v.Answer, RequestId: v.RequestID,
			LatencyMs: inMilliseconds(v.Latency), CostCents: v.Cost.Cents(), ErrorClass: toNullable(string(v.Class)),
		})
	}
	return out, nil
}

// CheckConsistency sends the same prompt several times.
func (s *probeServer) CheckConsistency(ctx context.Context, m *gatewayv1.CheckConsistencyRequest) (*gatewayv1.ConsistencyReport, error) {
	q := probe.Question{
		Provider: s.name(m.GetProvider()), Model: m.GetModel(), Prompt: m.GetPrompt(), Count: int(m.GetCount()),
		MaxTokens: defaultSampleTokens, Temperature: m.Temperature,
	}
	if m.MaxTokens != nil {
		q.MaxTokens = int(m.GetMaxTokens())
	}
	report, err := s.prober.Consistency(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("consistency: %w", err)
	}
	out := &gatewayv1.ConsistencyReport{
		Distinct: int32(report.Distinct), Agreement: report.Agreement, TokenOverlap: report.Overlap,
		Provider: report.Provider, Model: report.Model, Usage: toUsageProto(report.Usage),
	}
	for _, sample := range report.Samples {
		out.Samples = append(out.Samples, &gatewayv1.ConsistencySample{
			Content: sample.Text, FinishReason: string(sample.Finish), RequestId: sample.RequestID,
			LatencyMs: inMilliseconds(sample.Latency), ErrorClass: toNullable(string(sample.Class)),
		})
	}
	return out, nil
}

// CheckLiveness checks whether the default models answer.
func (s *probeServer) CheckLiveness(ctx context.Context, m *gatewayv1.CheckLivenessRequest) (*gatewayv1.LivenessReport, error) {
	report, err := s.prober.Liveness(ctx, s.name(m.GetProvider()))
	if err != nil {
		return nil, fmt.Errorf("liveness: %w", err)
	}
	out := &gatewayv1.LivenessReport{AllAlive: report.AllAlive, CostCents: report.Cost.Cents(), CheckedAt: timestamppb.New(report.Checked)}
	for _, result := range report.Results {
		model := &gatewayv1.ModelLiveness{
			Provider: result.Provider, Model: result.Model, Operation: string(result.Operation), Alive: result.Alive,
			LatencyMs: inMilliseconds(result.Latency), ErrorClass: toNullable(string(result.Class)), Error: toNullable(result.Code),
		}
		if result.Usage != nil {
			model.Usage = toUsageProto(*result.Usage)
		}
		out.Models = append(out.Models, model)
	}
	return out, nil
}
