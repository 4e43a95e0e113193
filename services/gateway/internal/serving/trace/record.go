package trace

import (
	"cmp"
	"crypto/sha256"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/screen"
)

// newRecord returns the part of a record that holds no content.
func newRecord(a *Observation, rule Rule) Record {
	r := &a.Request
	record := Record{
		ID: a.ID, RequestID: r.ID, Organization: r.Organization, Run: r.Run, Key: r.Key, Service: r.Service,
		Operation: string(r.Route.Operation), Status: string(a.Status), Stream: a.Stream, W3CTrace: a.TraceID,
		RequestedModel: shown(r.Route.Model, a), RequestedProvider: shown(r.Route.Provider, a), RequestedGoal: string(r.Route.Goal),
		Route: a.Route, PolicyVersion: a.Policy, PriceVersion: a.Price,
		Classification: r.Route.Classification, ApprovalRef: nameOf(r.ApprovalRef),
		Messages: r.Inputs, Tools: r.Tools, ResponseBytes: a.AnswerBytes,
		StartedAt: a.Started, FirstTokenMs: milliseconds(a.FirstToken), DurationMs: milliseconds(a.Ended.Sub(a.Started)),
		ExpiresAt: a.Ended.Add(rule.Retention),
	}
	if record.Operation == "" {
		record.Operation = string(provider.OperationChat)
	}
	switch {
	case r.ReplayOf != "":
		record.Parent, record.ParentKind = r.ReplayOf, ParentReplay
	case a.CachedFrom != "":
		record.Parent, record.ParentKind = a.CachedFrom, ParentCache
	}
	if report := a.Report; report != nil {
		record.Provider, record.Model = a.Served.Provider, a.Served.Model
		record.Credential, record.Fingerprint = a.Credential.Source, a.Credential.Fingerprint
		record.Billed, record.Prompt, record.Completion, record.Cost = true, report.Prompt, report.Completion, report.Cost
		record.Estimated, record.CacheHit, record.Substituted = report.Estimated, report.CacheHit, report.Substituted
	}
	if a.Err != nil {
		record.Error, record.ErrorClass, record.HTTPStatus = string(a.Err.Reason), string(a.Err.ErrorClass()), a.Err.Kind.HTTPStatus()
	}
	if a.Status != StatusOK {
		record.Error = cmp.Or(record.Error, "unknown") // A request that did not succeed always has an error.
	}
	for i := range a.Tries {
		record.Attempts = append(record.Attempts, newAttempt(&a.Tries[i]))
	}
	return record.cleaned()
}

// shown returns a name that a request asked for. A name that no route was found for is kept only if it has the form of
// a name.
func shown(name string, a *Observation) string {
	if a.Route != "" {
		return name
	}
	return nameOf(name)
}

func nameOf(text string) string {
	if screen.IsName(text) {
		return text
	}
	return ""
}

func newAttempt(t *Try) Attempt {
	return Attempt{
		Provider: t.Provider, Model: t.Model, Credential: t.Credential, Outcome: t.Outcome,
		Class: string(t.Class), Error: t.Code, HTTPStatus: t.HTTPStatus, VendorID: t.VendorID, StartedAt: t.Started,
		FirstTokenMs: milliseconds(t.FirstToken), DurationMs: milliseconds(t.Duration),
	}
}

func milliseconds(d time.Duration) float64 { return float64(max(d, 0).Microseconds()) / 1000 }

// cleaned returns the record without NUL and invalid UTF-8, which a text column can't store: a name that a caller
// invented must not fail the other records of its batch.
func (r Record) cleaned() Record {
	for _, field := range []*string{
		&r.RequestID, &r.Organization, &r.Run, &r.Key, &r.Service, &r.Parent, &r.RequestedModel, &r.RequestedProvider, &r.RequestedGoal,
		&r.Provider, &r.Model, &r.Classification, &r.ApprovalRef,
	} {
		if strings.IndexByte(*field, 0) >= 0 || !utf8.ValidString(*field) {
			*field = strings.ReplaceAll(strings.ToValidUTF8(*field, "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return r
}

// digest returns the SHA-256 of a text; nil for an empty one.
func digest(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
