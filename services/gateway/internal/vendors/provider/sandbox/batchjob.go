package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// The APIs whose requests the sandbox answers in batch jobs, each in its own form.
const (
	apiChat       = "/v1/chat/completions"
	apiEmbeddings = "/v1/embeddings"
	apiMessages   = "/v1/messages"
)

// batchTime is how long a batch job is under way.
const batchTime = time.Second

// batchID begins the ids of batch jobs. An id holds when the job was made, so that the sandbox need not keep it.
const batchID = "sandbox_"

// RunsBatches implements provider.BatchRunner.
func (p *Provider) RunsBatches(api string) bool {
	return api == apiChat || api == apiEmbeddings || api == apiMessages
}

// CreateBatch implements provider.BatchRunner. A job ends after a second, and is answered when its results are read.
func (p *Provider) CreateBatch(ctx context.Context, _ provider.Credential, job *provider.BatchJob) (*provider.BatchReport, error) {
	if err := begin(ctx, job.Model); err != nil {
		return nil, err
	}
	for _, err := range job.Lines {
		if err != nil {
			return nil, err
		}
	}
	return &provider.BatchReport{ID: batchID + strconv.FormatInt(time.Now().UnixMilli(), 10), Status: provider.BatchInProgress}, nil
}

// FindBatch implements provider.BatchRunner. No creation is unclear.
func (p *Provider) FindBatch(context.Context, provider.Credential, provider.BatchSearch) (*provider.BatchReport, error) {
	return nil, provider.ErrNoBatch
}

// ReadBatch implements provider.BatchRunner.
func (p *Provider) ReadBatch(_ context.Context, _ provider.Credential, id string) (*provider.BatchReport, error) {
	text, ok := strings.CutPrefix(id, batchID)
	made, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return nil, provider.ErrNoBatch
	}
	report := &provider.BatchReport{ID: id, Status: provider.BatchInProgress}
	if time.Since(time.UnixMilli(made)) >= batchTime {
		report.Status, report.Output = provider.BatchCompleted, id
	}
	return report, nil
}

// CancelBatch implements provider.BatchRunner. A job is over too soon to be cancelled.
func (p *Provider) CancelBatch(context.Context, provider.Credential, string) error { return nil }

// DeleteBatch implements provider.BatchRunner.
func (p *Provider) DeleteBatch(context.Context, provider.Credential, *provider.BatchReport) error {
	return nil
}

// BatchResults implements provider.BatchRunner. It answers the requests.
func (p *Provider) BatchResults(
	ctx context.Context, _ provider.Credential, job *provider.BatchJob, _ *provider.BatchReport, each func(provider.BatchResult) error,
) error {
	for line, err := range job.Lines {
		if err != nil {
			return err
		}
		result, err := p.result(ctx, job, &line)
		if err != nil {
			return err
		}
		if err := each(result); err != nil {
			return err
		}
	}
	return nil
}

// result answers one request.
func (p *Provider) result(ctx context.Context, job *provider.BatchJob, line *provider.BatchLine) (provider.BatchResult, error) {
	body, usage, err := p.answerLine(ctx, job, line)
	result := provider.BatchResult{CustomID: line.CustomID, Outcome: provider.BatchAnswered, Usage: usage}
	refused, isRefused := errors.AsType[*provider.Error](err)
	switch {
	case isRefused:
		result.Outcome, body = provider.BatchRequestFailed, map[string]any{"error": map[string]string{"code": refused.Code, "message": refused.Text}}
	case err != nil:
		return result, err
	}
	status := http.StatusOK
	if isRefused {
		status = refused.Status
	}
	shown := map[string]any{
		"id": "batch_req_" + line.CustomID, "custom_id": line.CustomID, "error": nil,
		"response": map[string]any{"status_code": status, "request_id": line.CustomID, "body": body},
	}
	if job.API == apiMessages {
		shown = map[string]any{"custom_id": line.CustomID, "result": map[string]any{"type": "succeeded", "message": body}}
		if isRefused {
			shown["result"] = map[string]any{"type": "errored", "error": map[string]any{"type": "error", "error": body["error"]}}
		}
	}
	result.Line, err = json.Marshal(shown)
	return result, err
}

// answerLine answers one request in the form of its API.
func (p *Provider) answerLine(ctx context.Context, job *provider.BatchJob, line *provider.BatchLine) (map[string]any, *provider.Usage, error) {
	request := gjson.ParseBytes(line.Body)
	if job.API == apiEmbeddings {
		return p.embedLine(ctx, job.Model, request)
	}
	chat := chatOf(request)
	chat.Model = job.Model
	answer, err := p.Chat(ctx, provider.Credential{}, chat)
	if err != nil {
		return nil, nil, err
	}
	if job.API == apiMessages {
		return map[string]any{
			"id": "msg_sandbox", "type": "message", "role": "assistant", "model": job.Model, "stop_reason": "end_turn", "stop_sequence": nil,
			"content": []map[string]any{{"type": "text", "text": answer.Text}},
			"usage":   map[string]int64{"input_tokens": answer.Usage.Input, "output_tokens": answer.Usage.Output},
		}, answer.Usage, nil
	}
	return map[string]any{
		"id": "chatcmpl-sandbox", "object": "chat.completion", "created": 0, "model": job.Model,
		"choices": []map[string]any{{
			"index": 0, "finish_reason": answer.FinishReason, "message": map[string]any{"role": "assistant", "content": answer.Text},
		}},
		"usage": map[string]int64{
			"prompt_tokens": answer.Usage.Input, "completion_tokens": answer.Usage.Output, "total_tokens": answer.Usage.Input + answer.Usage.Output,
		},
	}, answer.Usage, nil
}

// chatOf reads the texts of a conversation, which are all that the sandbox answers in a batch.
func chatOf(request gjson.Result) *provider.Chat {
	chat := &provider.Chat{MaxTokens: int(request.Get("max_tokens").Int())}
	request.Get("messages").ForEach(func(_, message gjson.Result) bool {
		m := provider.Message{Role: provider.Role(message.Get("role").Str)}
		content := message.Get("content")
		if content.Type == gjson.String {
			m.Content = []provider.Part{{Text: content.Str}}
		}
		content.Get("#.text").ForEach(func(_, text gjson.Result) bool {
			m.Content = append(m.Content, provider.Part{Text: text.Str})
			return true
		})
		chat.Messages = append(chat.Messages, m)
		return true
	})
	return chat
}

func (p *Provider) embedLine(ctx context.Context, model string, request gjson.Result) (map[string]any, *provider.Usage, error) {
	embedding := &provider.Embedding{Model: model, Dimensions: int(request.Get("dimensions").Int())}
	if input := request.Get("input"); input.Type == gjson.String {
		embedding.Input = []string{input.Str}
	} else {
		input.ForEach(func(_, text gjson.Result) bool {
			embedding.Input = append(embedding.Input, text.String())
			return true
		})
	}
	vectors, err := p.Embed(ctx, provider.Credential{}, embedding)
	if err != nil {
		return nil, nil, err
	}
	data := make([]map[string]any, len(vectors.Vectors))
	for i, vector := range vectors.Vectors {
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": vector}
	}
	return map[string]any{
		"object": "list", "model": model, "data": data,
		"usage": map[string]int64{"prompt_tokens": vectors.Usage.Input, "total_tokens": vectors.Usage.Input},
	}, vectors.Usage, nil
}
