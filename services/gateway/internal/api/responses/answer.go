package responses

import (
	"encoding/json"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/serving/inference"
)

// Answer implements dialect.Writer.
func (x *Exchange) Answer(reply dialect.Reply, c *inference.Completion) ([]byte, error) {
	if c.Native != nil {
		return x.kept(func() (json.RawMessage, error) { return x.ownObject(nil, gjson.ParseBytes(c.Native), reply.Model), nil })
	}
	r := x.object(reply.Model, statusInProgress)
	r.finish(c.FinishReason, c.Report, time.Now())
	items := answerItems{status: r.Status}
	if c.Reasoning != "" {
		items.add(newReasoning(newID("rs"), c.Reasoning, ""))
	}
	if c.Text != "" || len(c.Citations) > 0 || len(c.ToolCalls) == 0 && len(c.Images) == 0 {
		items.add(newMessage(newID("msg"), r.Status, textPart(c.Text, annotations(c.Citations))))
	}
	for _, uri := range c.Images {
		items.add(newImage(newID("ig"), uri))
	}
	for _, call := range c.ToolCalls {
		if len(call.Extra) > 0 {
			items.add(newReasoning(newID("rs"), "", seal(call.ID, call.Extra)))
		}
		of := x.tools.find(call.Name)
		items.add(newCall(newID(callPrefix(of.kind)), r.Status, of, call.ID, call.Arguments))
	}
	if items.err != nil {
		return nil, items.err
	}
	r.Output = items.list
	return x.kept(func() (json.RawMessage, error) {
		r.echo = x.echo
		return jsontext.Marshal(r)
	})
}

// answerItems collects the items of an answer as JSON.
type answerItems struct {
	status string
	list   []json.RawMessage
	err    error
}

func (a *answerItems) add(item any) {
	text, err := jsontext.Marshal(item)
	if err != nil {
		a.err = err
	}
	a.list = append(a.list, text)
}
