package providertest

import (
	"errors"
	"fmt"
	"io"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Collect reads a stream to its end as a caller would, and closes it. In addition to the stream's own failure it
// reports violations of provider.Stream: calls are numbered 0, 1, … with ID and name in their first delta only, the
// finish reason comes once and after all content, and Next keeps returning io.EOF.
func Collect(stream provider.Stream) (*provider.Answer, error) {
	answer, err := collect(stream)
	if closed := stream.Close(); err == nil && closed != nil {
		err = fmt.Errorf("close: %w", closed)
	}
	return answer, err
}

func collect(stream provider.Stream) (*provider.Answer, error) {
	answer := &provider.Answer{}
	for {
		event, err := stream.Next()
		if errors.Is(err, io.EOF) {
			if _, err := stream.Next(); !errors.Is(err, io.EOF) {
				return answer, fmt.Errorf("after the end: %w", err)
			}
			return answer, nil
		}
		if err != nil {
			return answer, err
		}
		if err := add(answer, event); err != nil {
			return answer, err
		}
	}
}

func add(answer *provider.Answer, event provider.Event) error {
	if answer.FinishReason != "" && (event.Content() || event.FinishReason != "") {
		return fmt.Errorf("after the finish reason: %+v", event)
	}
	answer.Text += event.Text
	answer.Reasoning += event.Reasoning
	answer.Other += event.Other
	answer.Citations = append(answer.Citations, event.Citations...)
	answer.Images = append(answer.Images, event.Images...)
	for _, delta := range event.ToolCalls {
		if err := addCall(answer, delta); err != nil {
			return err
		}
	}
	if event.FinishReason != "" {
		answer.FinishReason = event.FinishReason
	}
	if event.Usage != nil {
		answer.Usage = event.Usage
	}
	return nil
}

func addCall(answer *provider.Answer, delta provider.ToolCall) error {
	first := delta.Index == len(answer.ToolCalls)
	switch {
	case delta.Index < 0 || delta.Index > len(answer.ToolCalls):
		return fmt.Errorf("the index of a call is skipped: %+v", delta)
	case first && (delta.ID == "" || delta.Name == ""):
		return fmt.Errorf("a call begins without id or name: %+v", delta)
	case first:
		answer.ToolCalls = append(answer.ToolCalls, delta)
	case delta.ID != "" || delta.Name != "":
		return fmt.Errorf("id or name come again: %+v", delta)
	default:
		answer.ToolCalls[delta.Index].Arguments += delta.Arguments
	}
	return nil
}
