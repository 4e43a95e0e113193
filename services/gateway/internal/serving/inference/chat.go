package inference

import (
	"cmp"
	"context"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Chat returns a whole answer.
func (e *Engine) Chat(ctx context.Context, r *Request) (*Completion, error) {
	ctx, x, err := e.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	defer x.end(ctx)
	if answer := x.recall(ctx, false); answer != nil {
		return x.replay(ctx, answer)
	}
	if err := x.tryWhole(ctx, x.answer); err != nil {
		return nil, err
	}
	answer := x.present.answer
	x.finish = answer.FinishReason
	tally := x.present.whole()
	err = x.request.checkImages(answer.Images, answer.Native)
	if err == nil {
		err = x.tools.approveAnswer(ctx, answer.ToolCalls, answer.Native)
	}
	if err != nil {
		tally.whole = true
		x.record.failed(err)
		x.settle(ctx, ledger.OutcomeAborted, tally) // The vendor has been paid.
		return nil, err
	}
	completion := &Completion{
		Text: answer.Text, Reasoning: answer.Reasoning, ToolCalls: answer.ToolCalls, Citations: answer.Citations, Images: answer.Images,
		FinishReason: finishReason(answer.FinishReason, len(answer.ToolCalls) > 0),
		Report:       x.settle(ctx, ledger.OutcomeCompleted, tally), Native: answer.Native, record: x.record,
	}
	completion.Route = x.route()
	x.record.answered(trace.Answer{Text: completion.Text, ToolCalls: completion.ToolCalls, FinishReason: completion.FinishReason})
	x.remember(ctx, kept{
		Text: completion.Text, Reasoning: completion.Reasoning, ToolCalls: completion.ToolCalls, FinishReason: completion.FinishReason,
		Citations: completion.Citations, Images: completion.Images,
		Usage: completion.Report.Usage, State: x.billed.state, Native: completion.Native,
	})
	return completion, nil
}

// checkImages returns an error if an answer has images and the caller's form has no place for them. Leaving them out of
// an answer that was paid for would misrepresent it.
func (r *Request) checkImages(images []string, native []byte) error {
	if len(images) == 0 || native != nil || r.ShowsImages {
		return nil
	}
	return &apierr.Error{
		Kind: apierr.KindUnprocessable, Reason: ReasonImageInAnswer, Class: apierr.ClassPolicy,
		Text: "the model answered with an image, which this API can't return; call the model through /v1/chat, /v1/chat/completions or /v1/responses",
	}
}

// whole returns the size of a whole answer. It keeps the text only if its tokens are to be counted.
func (a *attempt) whole() tally {
	event := &provider.Event{
		Text: a.answer.Text, Reasoning: a.answer.Reasoning, Other: a.answer.Other, ToolCalls: a.answer.ToolCalls, Images: a.answer.Images,
		Native: a.answer.Native, FinishReason: a.answer.FinishReason,
	}
	t := tally{usage: a.answer.Usage}
	if t.output(event); t.lacksOutput() {
		t = tally{usage: a.answer.Usage, written: a.transcript()}
		t.output(event)
	}
	return t
}

// answer asks a candidate for a whole answer.
func (x *execution) answer(ctx context.Context, a *attempt) error {
	p, err := a.chatProvider()
	if err != nil {
		return err
	}
	chat, err := x.chat(ctx, &a.candidate)
	if err != nil {
		return err
	}
	if a.answer, err = p.Chat(ctx, a.credential, chat.Chat); err == nil {
		chat.Restore(a.answer.ToolCalls)
		a.learn(a.answer.Limits)
	}
	return err
}

// finishReason returns the finish reason, or the usual one where the provider sent none.
func finishReason(reason provider.FinishReason, calls bool) provider.FinishReason {
	return cmp.Or(reason, provider.FinishStop).WithCalls(calls)
}
