package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func turn(role provider.Role, texts ...string) provider.Message {
	m := provider.Message{Role: role}
	for _, text := range texts {
		m.Content = append(m.Content, provider.Part{Text: text})
	}
	return m
}

func question() *provider.Chat {
	return &provider.Chat{Messages: []provider.Message{turn(provider.RoleUser, "u")}}
}

// Rules about a conversation's messages apply to those that are left without the texts that a vendor refuses.
func TestTurnsAreFitted(t *testing.T) {
	const system, user, assistant = provider.RoleSystem, provider.RoleUser, provider.RoleAssistant
	image := provider.Message{Role: system, Content: []provider.Part{{Text: "i"}, {ImageURL: "https://images.example/a.png"}}}
	file := provider.Message{Role: system, Content: []provider.Part{{File: &provider.File{URL: "data:application/pdf;base64,JVBERi0="}}}}
	moved, movedFile := image, file
	moved.Role, movedFile.Role = user, user
	calls := provider.Message{Role: assistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: "f"}}}
	result := provider.Message{Role: provider.RoleTool, ToolCallID: "c"}
	blankResult := result
	blankResult.Content = []provider.Part{{Text: " "}}
	cached := func(text string, life provider.CacheLife) provider.Message {
		return provider.Message{Role: user, Content: []provider.Part{{Text: text, Cache: life}}}
	}
	lenient, empty, blank := provider.Terms{}, provider.Terms{Texts: provider.TextsNotEmpty, SystemApart: true}, provider.Terms{Texts: provider.TextsNotBlank, SystemApart: true}
	begins, noPrefill := blank, blank
	begins.UserFirst, noPrefill.NoPrefill = true, true
	type list = []provider.Message
	for name, c := range map[string]struct {
		terms       provider.Terms
		given, want list   // want is nil if given stays as it is.
		refused     string // the beginning of the refusal
	}{
		"any texts":                     {lenient, list{turn(system, " "), turn(user, ""), turn(assistant, "a ")}, nil, ""},
		"blank texts":                   {blank, list{turn(user, " ", "u", "\n"), turn(assistant), turn(user, "v")}, list{turn(user, "u"), turn(user, "v")}, ""},
		"empty texts":                   {empty, list{turn(user, "", "u", " "), turn(assistant, "")}, list{turn(user, "u", " ")}, ""},
		"a blank instruction":           {blank, list{turn(system, " "), turn(user, "u")}, list{turn(user, "u")}, ""},
		"a blank result":                {blank, list{turn(user, "u"), calls, blankResult}, list{turn(user, "u"), calls, {Role: result.Role, ToolCallID: "c", Content: []provider.Part{}}}, ""},
		"a point after a text":          {blank, list{{Role: user, Content: []provider.Part{{Text: "u"}, {Cache: provider.CacheLong}}}}, list{cached("u", provider.CacheLong)}, ""},
		"a point alone":                 {blank, list{turn(user, "u"), cached("", provider.CacheLong)}, list{turn(user, "u")}, ""},
		"instructions first":            {blank, list{turn(system, "s"), turn(user, "u"), turn(assistant, "a"), turn(user, "v")}, nil, ""},
		"late instructions":             {blank, list{turn(system, "s"), turn(system, "t"), turn(user, "u"), turn(system, "v")}, list{turn(system, "s"), turn(system, "t"), turn(user, "u"), turn(user, "v")}, ""},
		"instructions between":          {lenient, list{turn(user, "u"), turn(system, "s")}, nil, ""},
		"only instructions":             {blank, list{turn(system, "s"), turn(system, "t")}, list{turn(system, "s"), turn(user, "t")}, ""},
		"one instruction":               {empty, list{turn(system, "s"), turn(user, "")}, list{turn(user, "s")}, ""},
		"only instructions where taken": {lenient, list{turn(system, "s")}, nil, ""},
		"an image as an instruction":    {blank, list{turn(system, "s"), image, turn(system, "t"), turn(user, "u")}, list{turn(system, "s"), moved, turn(user, "t"), turn(user, "u")}, ""},
		"a document as an instruction":  {empty, list{file, turn(user, "u")}, list{movedFile, turn(user, "u")}, ""},
		"an image where taken":          {lenient, list{image, turn(user, "u")}, nil, ""},
		"nothing":                       {blank, list{turn(system, " "), turn(user, "\t")}, nil, "messages: this provider needs a message"},
		"nothing but an empty text":     {empty, list{turn(user, "")}, nil, "messages: this provider needs a message"},
		"an answer first":               {begins, list{turn(system, "s"), turn(assistant, "a"), turn(user, "u")}, nil, "messages[0].role: "},
		"an answer after a blank":       {begins, list{turn(user, " "), turn(assistant, "a"), turn(user, "u")}, nil, "messages[0].role: "},
		"an answer first where taken":   {blank, list{turn(assistant, "a"), turn(user, "u")}, nil, ""},
		"a blank answer first":          {begins, list{turn(assistant, " "), turn(user, "u")}, list{turn(user, "u")}, ""},
		"an answer to continue":         {blank, list{turn(user, "u"), turn(assistant, "a", "b \n")}, list{turn(user, "u"), turn(assistant, "a", "b")}, ""},
		"an answer and a blank one":     {blank, list{turn(user, "u"), turn(assistant, "a "), turn(assistant, " ")}, list{turn(user, "u"), turn(assistant, "a")}, ""},
		"an answer not continued":       {noPrefill, list{turn(user, "u"), turn(assistant, "a")}, nil, "messages: this model doesn't continue an answer"},
		"a blank answer":                {noPrefill, list{turn(user, "u"), turn(assistant, " ")}, list{turn(user, "u")}, ""},
		"an answer and a blank turn":    {blank, list{turn(user, "u"), turn(assistant, "a"), turn(user, " ")}, nil, "messages: without blank texts"},
		"calls and a result":            {noPrefill, list{turn(user, "u"), calls, result}, nil, ""},
		"calls at the end":              {blank, list{turn(user, "u"), calls}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := strings.Join(textsOf(c.given), "|")
			got, err := c.terms.Fit(&provider.Chat{Messages: c.given})
			if after := strings.Join(textsOf(c.given), "|"); after != before {
				t.Errorf("the chat itself changed from %s to %s", before, after)
			}
			if c.refused != "" {
				if e, ok := errors.AsType[*provider.Error](err); !ok || !e.Unsupported || !strings.HasPrefix(e.Text, c.refused) {
					t.Errorf("%v, want %s", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.want == nil {
				c.want = c.given
			}
			if diff := cmp.Diff(c.want, got.Messages); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func textsOf(messages []provider.Message) (texts []string) {
	for _, m := range messages {
		texts = append(texts, string(m.Role)+":"+m.Text())
	}
	return texts
}
