package bedrock

import (
	"cmp"
	"slices"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
)

type request struct {
	System     []block       `json:"system,omitempty"`
	Messages   []message     `json:"messages"`
	Inference  inference     `json:"inferenceConfig"`
	Tools      *toolConfig   `json:"toolConfig,omitempty"`
	Output     *outputConfig `json:"outputConfig,omitempty"`
	Additional *additional   `json:"additionalModelRequestFields,omitempty"`
}

type inference struct {
	MaxTokens   int      `json:"maxTokens"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"topP,omitempty"`
	Stop        []string `json:"stopSequences,omitempty"`
}

type outputConfig struct {
	Format *textFormat     `json:"textFormat,omitempty"`
	Effort provider.Effort `json:"effort,omitempty"`
}

type textFormat struct {
	Type      string    `json:"type"`
	Structure structure `json:"structure"`
}

type structure struct {
	Schema schema `json:"jsonSchema"`
}

// schema has the text of a JSON schema.
type schema struct {
	Text        string `json:"schema"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
}

// additional are fields of the model's own.
type additional struct {
	Thinking *anthropic.ThinkingConfig `json:"thinking,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// The sides of a conversation.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// encoder writes one request.
type encoder struct {
	request

	chat      *provider.Chat
	family    family
	documents int
}

// encode puts the system messages into the dialect's own field. It joins consecutive turns of the same side, because the
// dialect requires user and assistant to alternate. Terms.Fit must have adapted the chat. limit is the model's configured
// limit of output tokens; 0 for none.
func encode(chat *provider.Chat, limit int) (*request, error) {
	if err := check(chat); err != nil {
		return nil, err
	}
	e := &encoder{chat: chat, family: familyOf(chat.Model)}
	e.Messages = []message{}
	for _, m := range chat.Messages {
		if err := e.add(m); err != nil {
			return nil, err
		}
	}
	e.nameDocuments()
	if err := e.declare(); err != nil {
		return nil, err
	}
	maxTokens := cmp.Or(chat.MaxTokens, limit, defaultMaxTokens)
	e.Inference = inference{MaxTokens: maxTokens, Temperature: chat.Temperature, TopP: chat.TopP, Stop: chat.Stop}
	if err := e.form(e.think(limit)); err != nil {
		return nil, err
	}
	e.limitCachePoints()
	return &e.request, nil
}

// check returns an error for settings that the dialect can't express and on which the answer depends. Hints are left
// out.
func check(chat *provider.Chat) error {
	if chat.Temperature != nil && *chat.Temperature > 1 {
		return provider.Unsupported("temperature", "this provider accepts 0 to 1")
	}
	return chat.WithoutNames()
}

// add adds a turn.
func (e *encoder) add(m provider.Message) error {
	blocks, err := e.blocks(m)
	if err != nil {
		return err
	}
	role := roleUser
	switch m.Role {
	case provider.RoleSystem:
		e.System = append(e.System, blocks...)
		return nil
	case provider.RoleAssistant:
		role = roleAssistant
	case provider.RoleUser, provider.RoleTool:
	}
	e.join(role, blocks)
	return nil
}

// join adds blocks to a side. It puts a turn of the assistant between results of calls and what the model refuses in
// their turn.
func (e *encoder) join(role string, blocks []block) {
	last := len(e.Messages) - 1
	follows := last >= 0 && e.Messages[last].Role == role
	if follows && (role == roleAssistant || e.family.joins(e.Messages[last].Content, blocks)) {
		e.Messages[last].Content = append(e.Messages[last].Content, blocks...)
		return
	}
	if follows {
		e.Messages = append(e.Messages, message{roleAssistant, []block{{Text: provider.Bridge}}})
	}
	e.Messages = append(e.Messages, message{role, blocks})
}

// instruct adds an instruction to those of the caller.
func (e *encoder) instruct(text string) { e.System = append(e.System, block{Text: text}) }

// think asks for thinking, as Claude is asked for it, and returns its effort.
func (e *encoder) think(limit int) provider.Effort {
	if !isClaude(e.chat.Model) {
		return ""
	}
	plan := anthropic.PlanThinking(e.chat, e.Inference.MaxTokens, limit)
	if plan.Config != nil {
		e.Additional = &additional{plan.Config}
	}
	e.Inference.MaxTokens = plan.MaxTokens
	return plan.Effort
}

// form says how much effort the answer may take, and its form.
func (e *encoder) form(effort provider.Effort) error {
	form, err := anthropic.FormatOf(e.chat)
	if err != nil {
		return err
	}
	for _, text := range form.Instructions {
		e.instruct(text)
	}
	if form.Schema != nil && !enforces(e.chat.Model) {
		return provider.Unsupported("response_format.json_schema.strict", "this model has no enforced schemas")
	}
	if form.Schema == nil && effort == "" {
		return nil
	}
	e.Output = &outputConfig{Effort: effort}
	if form.Schema != nil {
		e.Output.Format = &textFormat{"json_schema", structure{schema{string(form.Schema), form.Name, form.Description}}}
	}
	return nil
}

// cachePoint ends a prefix that the vendor keeps. It is a block of its own.
type cachePoint struct {
	Type string `json:"type"`
	// TTL is "1h", or empty for five minutes.
	TTL string `json:"ttl,omitempty"`
}

// newCachePoint returns nil for no life.
func newCachePoint(life provider.CacheLife) *cachePoint {
	if life == "" {
		return nil
	}
	point := &cachePoint{Type: "default"}
	if life == provider.CacheLong {
		point.TTL = string(life)
	}
	return point
}

// cachePoint returns the block of a point, as far as the model has such.
func (e *encoder) cachePoint(life provider.CacheLife) []block {
	switch {
	case life == "" || !takesCachePoints(e.chat.Model):
		return nil
	case !cachesForAnHour(e.chat.Model):
		life = provider.CacheShort
	}
	return []block{{CachePoint: newCachePoint(life)}}
}

// limitCachePoints keeps as many points as the vendor takes.
func (e *encoder) limitCachePoints() {
	lists := []*[]block{&e.System}
	for i := range e.Messages {
		lists = append(lists, &e.Messages[i].Content)
	}
	var points []**cachePoint
	var lives []provider.CacheLife
	for _, list := range lists {
		for i := range *list {
			if point := &(*list)[i].CachePoint; *point != nil {
				points, lives = append(points, point), append(lives, provider.CacheLifeOf((*point).TTL))
			}
		}
	}
	anthropic.LimitCachePoints(lives)
	for i, point := range points {
		*point = newCachePoint(lives[i])
	}
	for _, list := range lists {
		*list = slices.DeleteFunc(*list, func(b block) bool { return b == block{} })
	}
}
