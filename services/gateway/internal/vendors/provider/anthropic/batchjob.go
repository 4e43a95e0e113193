package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// batchAPI is the only API that jobs are made of. Source: Anthropic API reference, "Message Batches".
const batchAPI = "/v1/messages"

// RunsBatches implements provider.BatchRunner.
func (p *Provider) RunsBatches(api string) bool { return p.batches && api == batchAPI }

// batchURL returns the URL of the jobs, or of one of them.
func (p *Provider) batchURL(path ...string) *url.URL {
	return p.base.JoinPath(append([]string{"batches"}, path...)...)
}

// CreateBatch implements provider.BatchRunner.
func (p *Provider) CreateBatch(ctx context.Context, credential provider.Credential, job *provider.BatchJob) (*provider.BatchReport, error) {
	if !p.RunsBatches(job.API) {
		return nil, provider.Unsupported("endpoint", "is not one that this provider runs batch jobs of")
	}
	first := true
	text, err := wire.EncodeBatch(job, []byte(`{"requests":[`), nil, func(out []byte, line provider.BatchLine) []byte {
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(out, `{"custom_id":"`...), line.CustomID...)
		return append(append(append(out, `","params":`...), params(job.Model, line.Body)...), '}')
	})
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	return caller.MakeBatch(ctx, p.batchURL(), p.host.header(nil), json.RawMessage(append(text, "]}"...)), reportReader(caller))
}

// params returns a message's body as a job takes it: not streamed, and without what the vendor would refuse in it as far as
// Relay removes it.
func params(model string, body []byte) json.RawMessage {
	own := membersOf(wire.ParseView(body))
	kept := own.messages.Raw
	if bytes.Contains(body, ownSignature) {
		kept = withoutOwn(own.messages)
	}
	kept = repaired(gjson.Parse(kept))
	members, _ := own.adapt(own.chat(model, gjson.Parse(kept)))
	if kept != own.messages.Raw {
		members = append(members, wire.Member{Name: "messages", Value: kept})
	}
	return wire.Override(body, append(members, wire.Member{Name: "stream"})...)
}

// chat returns a request with what obstacleTo reads of it.
func (m ownMembers) chat(model string, messages gjson.Result) *provider.Chat {
	limit, _ := wire.Tokens(m.maxTokens)
	chat := &provider.Chat{Model: model, MaxTokens: int(limit), Messages: turnsOf(messages)}
	if m.temperature.Type == gjson.Number {
		chat.Temperature = &m.temperature.Num
	}
	if m.topP.Type == gjson.Number {
		chat.TopP = &m.topP.Num
	}
	if kind := m.toolChoice.Get("type").Str; kind == "any" || kind == "tool" {
		chat.ToolChoice = &provider.ToolChoice{Mode: "required"}
	}
	return chat
}

// turnsOf returns the turns of a conversation in the dialect's own form with what obstacleTo reads of them: roles,
// calls and the thinking before calls.
func turnsOf(messages gjson.Result) (turns []provider.Message) {
	each(messages, func(message gjson.Result) {
		turn := provider.Message{Role: provider.Role(message.Get("role").Str)}
		var thought Thinking
		each(message.Get("content"), func(block gjson.Result) {
			switch kind := block.Get("type").Str; {
			case isThinking(kind):
				thought.Add(wire.Bytes(block), false)
			case kind == "tool_use":
				turn.ToolCalls = append(turn.ToolCalls, provider.ToolCall{Extra: thought.Take()})
			case kind == "tool_result":
				turn.Role = provider.RoleTool
			}
		})
		turns = append(turns, turn)
	})
	return turns
}

// FindBatch implements provider.BatchRunner. A job doesn't hold its mark, but the custom ids of its results do. Until it has
// ended, one of the same size and age may be it.
func (p *Provider) FindBatch(ctx context.Context, credential provider.Credential, search provider.BatchSearch) (*provider.BatchReport, error) {
	caller := p.caller.With(credential)
	list := wire.BatchList{
		Page:    func(after string) (gjson.Result, error) { return p.page(ctx, caller, after) },
		Created: func(job gjson.Result) time.Time { return timeOf(job.Get("created_at")) },
	}
	var found *provider.BatchReport
	undecided := false
	err := list.Since(search.Since, func(job gjson.Result) (done bool, err error) {
		report, err := reportOf(job)
		switch {
		case err != nil:
			return true, err
		case countsOf(job).total() != int64(search.Count), search.Other != nil && search.Other(report.ID):
			return false, nil
		case !report.Status.Ended():
			undecided = true
			return false, nil
		}
		custom, err := p.firstResult(ctx, credential, report)
		if err == nil && custom != "" && strings.HasPrefix(custom, search.Mark) {
			found = report
		}
		return found != nil, err
	})
	switch {
	case err != nil || found != nil:
	case undecided:
		err = provider.ErrBatchUndecided
	default:
		err = provider.ErrNoBatch
	}
	return found, err
}

// page returns the page of jobs behind one of them.
func (p *Provider) page(ctx context.Context, caller *wire.Caller, after string) (gjson.Result, error) {
	at := p.batchURL()
	query := at.Query()
	query.Set("limit", strconv.Itoa(wire.BatchPage))
	if after != "" {
		query.Set("after_id", after)
	}
	at.RawQuery = query.Encode()
	response, err := caller.Call(ctx, http.MethodGet, at, p.host.header(nil)) //nolint:bodyclose // read closes it.
	if err != nil {
		return gjson.Result{}, err
	}
	_, root, err := read(ctx, caller, response)
	return root, err
}

var errFirst = errors.New("the first result is enough")

// firstResult returns the custom id of the first result of a job that has ended; "" where the vendor no longer has results.
func (p *Provider) firstResult(ctx context.Context, credential provider.Credential, job *provider.BatchReport) (custom string, err error) {
	err = p.BatchResults(ctx, credential, nil, job, func(result provider.BatchResult) error {
		custom = result.CustomID
		return errFirst
	})
	if e, ok := errors.AsType[*provider.Error](err); errors.Is(err, errFirst) || ok && e.Status == http.StatusNotFound {
		err = nil
	}
	return custom, err
}

// ReadBatch implements provider.BatchRunner.
func (p *Provider) ReadBatch(ctx context.Context, credential provider.Credential, id string) (*provider.BatchReport, error) {
	if !wire.IsVendorID(id) {
		return nil, wire.NotVendorID()
	}
	caller := p.caller.With(credential)
	report, err := caller.ReadBatch(ctx, p.batchURL(id), p.host.header(nil), reportReader(caller))
	if err == nil && report.ID != id {
		return nil, wire.Malformed("the answer is about another batch job", nil)
	}
	return report, err
}

// CancelBatch implements provider.BatchRunner.
func (p *Provider) CancelBatch(ctx context.Context, credential provider.Credential, id string) error {
	if !wire.IsVendorID(id) {
		return wire.NotVendorID()
	}
	at := p.batchURL(id, "cancel")
	return p.caller.With(credential).CancelBatch(ctx, at, p.host.header(nil), func() (*provider.BatchReport, error) {
		return p.ReadBatch(ctx, credential, id)
	})
}

// DeleteBatch implements provider.BatchRunner.
func (p *Provider) DeleteBatch(ctx context.Context, credential provider.Credential, job *provider.BatchReport) error {
	if !wire.IsVendorID(job.ID) {
		return wire.NotVendorID()
	}
	return p.caller.With(credential).Delete(ctx, p.batchURL(job.ID), p.host.header(nil))
}
