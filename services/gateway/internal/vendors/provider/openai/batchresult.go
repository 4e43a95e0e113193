package openai

import (
	"context"
	"net/http"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// BatchResults implements provider.BatchRunner. Requests that were answered are in one file, and those that failed in another.
func (p *Provider) BatchResults(ctx context.Context, credential provider.Credential, _ *provider.BatchJob, report *provider.BatchReport, each func(provider.BatchResult) error) error {
	for _, id := range []string{report.Output, report.Errors} {
		if id == "" {
			continue
		}
		if !wire.IsVendorID(id) {
			return wire.NotVendorID()
		}
		at := p.batchURL(files + "/" + id + "/content")
		if err := p.caller.With(credential).Results(ctx, at, header(nil), resultOf, each); err != nil {
			return err
		}
	}
	return nil
}

// resultOf reads a line of results. Source: OpenAI API reference, "The request output object".
func resultOf(line []byte) (provider.BatchResult, error) {
	view, custom, err := wire.ParseResult(line)
	if err != nil {
		return provider.BatchResult{}, err
	}
	result := provider.BatchResult{CustomID: custom, Line: line, Outcome: outcomeOf(view)}
	if result.Outcome == provider.BatchAnswered {
		body := view.Get("response.body")
		result.Usage, result.Written = resultUsage(body), resultWritten(body)
	}
	return result, nil
}

// outcomeOf returns what became of a request. Source: OpenAI's guide "Batch API", on errors of expired and cancelled jobs.
func outcomeOf(view gjson.Result) provider.BatchOutcome {
	problem, status := view.Get("error"), view.Get("response.status_code")
	switch code := problem.Get("code").Str; {
	case view.Get("response.body.status").Str == "failed": // A failed response has the status 200.
		return provider.BatchRequestFailed
	case status.Type == gjson.Number && status.Num == http.StatusOK && !isError(problem):
		return provider.BatchAnswered
	case code == "batch_expired":
		return provider.BatchRequestExpired
	case code == "batch_cancelled":
		return provider.BatchRequestCancelled
	}
	return provider.BatchRequestFailed
}

// resultWritten returns how many bytes the model wrote in an answer of any API.
func resultWritten(body gjson.Result) int {
	answer := &provider.Answer{}
	if output := body.Get("output"); output.IsArray() {
		readOutput(output, answer)
		return answer.Written()
	}
	var c chunk
	members(body, c.member)
	c.addDetails()
	answer.Text, answer.Reasoning, answer.Other = c.text.String(), c.reasoning.String(), c.other.String()
	for i := range c.calls {
		answer.ToolCalls = append(answer.ToolCalls, c.calls[i].ToolCall)
	}
	n := answer.Written()
	each(body.Get("choices"), func(choice gjson.Result) { n += len(wire.Text(choice.Get("text"))) }) // The API before chats.
	return n
}

// resultUsage returns the usage of an answer of any API, or nil if it has none.
func resultUsage(body gjson.Result) *provider.Usage {
	used := body.Get("usage")
	switch body.Get("object").Str {
	case "list": // embeddings
		return inputOf(used)
	case "response":
		return responseUsage(used)
	}
	if usage := usageOf(used); usage != nil {
		return usage
	}
	return responseUsage(used)
}
