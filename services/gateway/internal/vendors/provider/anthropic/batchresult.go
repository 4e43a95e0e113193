package anthropic

import (
	"context"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// BatchResults implements provider.BatchRunner. The address of the results that the vendor gives is not used: it could be any.
func (p *Provider) BatchResults(ctx context.Context, credential provider.Credential, _ *provider.BatchJob, report *provider.BatchReport, each func(provider.BatchResult) error) error {
	switch {
	case report.Output == "":
		return nil
	case !wire.IsVendorID(report.ID):
		return wire.NotVendorID()
	}
	return p.caller.With(credential).Results(ctx, p.batchURL(report.ID, "results"), p.host.header(nil), resultOf, each)
}

// resultOf reads a line of results.
func resultOf(line []byte) (provider.BatchResult, error) {
	view, custom, err := wire.ParseResult(line)
	if err != nil {
		return provider.BatchResult{}, err
	}
	result := provider.BatchResult{CustomID: custom, Line: line, Outcome: outcomeOf(view.Get("result.type").Str)}
	if result.Outcome == provider.BatchAnswered {
		message := view.Get("result.message")
		var u usage
		u.update(message.Get("usage"))
		result.Usage = u.disjoint()
		if answer, err := decode(message); err == nil {
			result.Written = answer.Written()
		}
	}
	return result, nil
}

// outcomeOf returns what became of a request whose result has a type.
func outcomeOf(kind string) provider.BatchOutcome {
	switch kind {
	case "succeeded":
		return provider.BatchAnswered
	case "canceled":
		return provider.BatchRequestCancelled
	case "expired":
		return provider.BatchRequestExpired
	}
	return provider.BatchRequestFailed
}

func reportReader(caller *wire.Caller) wire.ReadReport {
	return func(ctx context.Context, response *http.Response) (*provider.BatchReport, error) {
		_, job, err := read(ctx, caller, response)
		if err != nil {
			return nil, err
		}
		return reportOf(job)
	}
}

// counts are the numbers of a job's requests by their state. All are processing until the whole job has ended.
type counts struct{ processing, succeeded, errored, canceled, expired int64 }

func countsOf(job gjson.Result) counts {
	of := func(name string) int64 {
		n, _ := wire.Tokens(job.Get("request_counts." + name))
		return n
	}
	return counts{of("processing"), of("succeeded"), of("errored"), of("canceled"), of("expired")}
}

func (c counts) total() int64 { return c.processing + c.succeeded + c.errored + c.canceled + c.expired }

// reportOf reads a job.
func reportOf(job gjson.Result) (*provider.BatchReport, error) {
	id, ok := wire.BatchID(job.Get("id"))
	if !ok || id == "" {
		return nil, wire.Malformed("the answer holds no valid id of a batch job", nil)
	}
	c := countsOf(job)
	report := &provider.BatchReport{ID: id, Answered: int(c.succeeded), Failed: int(c.errored + c.canceled + c.expired)}
	switch state := job.Get("processing_status").Str; state {
	case "":
		return nil, wire.Malformed("the answer holds no state of the batch job", nil)
	case "ended":
		report.Status = endOf(job, c)
		if job.Get("results_url").Str != "" { // Absent once they are deleted, after 29 days.
			report.Output = id
		}
	case "canceling":
		report.Status = provider.BatchCancelling
	default: // One that is not known here is not known to be an end.
		report.Status = provider.BatchInProgress
	}
	return report, nil
}

// endOf returns how a job has ended. The vendor ends requests without an answer or an error only because the job was
// cancelled or has expired.
func endOf(job gjson.Result, c counts) provider.BatchStatus {
	switch {
	case job.Get("cancel_initiated_at").Str != "", c.canceled > 0:
		return provider.BatchCancelled
	case c.expired > 0:
		return provider.BatchExpired
	}
	return provider.BatchCompleted
}

func timeOf(value gjson.Result) time.Time {
	at, _ := time.Parse(time.RFC3339, value.Str) // The zero time where there is none.
	return at
}
