package responses

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// past is a history of one conversation.
type past struct {
	turns []Record
	items map[string]json.RawMessage
}

func (p past) Chain(id string) ([]Record, error) {
	if id != "resp_2" {
		return nil, PreviousNotFound()
	}
	return p.turns, nil
}

func (p past) Items([]string) (map[string]json.RawMessage, error) { return p.items, nil }

var twoTurns = past{
	turns: []Record{
		{json.RawMessage(`[{"id":"msg_1","role":"user","content":"one"}]`), json.RawMessage(`{"output":[{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]}`)},
		{json.RawMessage(`[{"id":"fco_1","type":"function_call_output","call_id":"c1","output":"1"}]`), json.RawMessage(`{"output":[{"id":"msg_2","type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]}]}`)},
	},
	items: map[string]json.RawMessage{"msg_9": json.RawMessage(`{"id":"msg_9","role":"assistant","content":"elsewhere"}`)},
}

// texts returns the roles and texts of a chat's messages.
func texts(c *dialect.Chat) (out []string) {
	for _, m := range c.Chat.Messages {
		text := string(m.Role) + ": " + m.Text()
		for _, call := range m.ToolCalls {
			text += call.Name
		}
		out = append(out, text)
	}
	return out
}

// A request continues a conversation and names items by their ids; a vendor that takes the form gets all of them.
func TestHistory(t *testing.T) {
	const before = `{"id":"msg_1","role":"user","content":"one"},{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"id":"fco_1","type":"function_call_output","call_id":"c1","output":"1"},{"id":"msg_2","type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]}`
	conversation := []string{"user: one", "assistant: f", "tool: 1", "assistant: two"}
	for name, c := range map[string]struct {
		body     string
		messages []string
		native   string
	}{
		"a text":       {`{"previous_response_id":"resp_2","input":"three"}`, append(conversation[:4:4], "user: three"), before + `,{"type":"message","role":"user","content":"three"}`},
		"items":        {`{"previous_response_id":"resp_2","input":[{"role":"user","content":"three"}]}`, append(conversation[:4:4], "user: three"), before + `,{"role":"user","content":"three"}`},
		"nothing new":  {`{"previous_response_id":"resp_2"}`, conversation, before},
		"an empty one": {`{"previous_response_id":"resp_2","input":[]}`, conversation, before},
		"a reference":  {`{"input":[{"type":"item_reference","id":"msg_9"},{"id":"msg_9"}]}`, []string{"assistant: elsewhere", "assistant: elsewhere"}, `{"id":"msg_9","role":"assistant","content":"elsewhere"},{"id":"msg_9","role":"assistant","content":"elsewhere"}`},
	} {
		t.Run(name, func(t *testing.T) {
			chat, _, err := Read([]byte(c.body), nil, twoTurns)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.messages, texts(chat)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if got := gjson.GetBytes(chat.Chat.Native.Body, "input").Raw; got != "["+c.native+"]" {
				t.Errorf("the vendor's input is %s, want %s", got, c.native)
			}
		})
	}
}

func TestHistoryRefuses(t *testing.T) {
	for body, want := range map[string]struct {
		history History
		text    string
	}{
		`{"previous_response_id":"resp_3","input":"x"}`:                                  {twoTurns, "previous_response_id: no such response is stored"},
		`{"previous_response_id":"resp_2","input":"x"}`:                                  {nil, "previous_response_id: no such response is stored"},
		`{"input":[{"role":"user","content":"a"},{"type":"item_reference","id":"x"}]}`:   {twoTurns, "input[1].id: no such item is stored"},
		`{"input":[{"role":"user","content":"a"},{"id":"x"}]}`:                           {nil, "input[1].id: no such item is stored"},
		`{"previous_response_id":"resp_2","input":[{"role":"robot","content":"three"}]}`: {twoTurns, "input[0].role: must be"},
		`{"previous_response_id":7,"input":"x"}`:                                         {twoTurns, "previous_response_id: has the wrong JSON type"},
	} {
		_, _, err := Read([]byte(body), nil, want.history)
		if e := apierr.From(err); err == nil || !strings.HasPrefix(e.Text, want.text) {
			t.Errorf("%s: %v, want %s", body, err, want.text)
		}
	}
}

// What is stored has ids for all items, holds no item twice in a chain, and the answer says whether it was stored.
func TestKeeps(t *testing.T) {
	body := `{"previous_response_id":"resp_2","store":true,"input":[{"id":null,"role":"user","content":"three"},{"id":"msg_8","role":"user","content":"four"}]}`
	completion := &inference.Completion{Text: "five", FinishReason: provider.FinishStop}
	for name, stored := range map[string]bool{"stored": true, "not stored": false} {
		_, x, err := Read([]byte(body), nil, twoTurns)
		if err != nil {
			t.Fatal(err)
		}
		var kept json.RawMessage
		x.SetKeep(func(response json.RawMessage) bool {
			kept = response
			return stored
		})
		answer, err := x.Answer(dialect.Reply{Model: "m"}, completion)
		if err != nil {
			t.Fatal(err)
		}
		if got := gjson.GetBytes(answer, "store").Bool(); got != stored {
			t.Errorf("%s: the answer says %t", name, got)
		}
		turn := Record{x.Input(), kept}
		if ids := ItemIDs(turn); len(ids) != 3 || !strings.HasPrefix(ids[0], "msg_sw") || ids[1] != "msg_8" {
			t.Errorf("%s: ids %q of %s, want those of three items", name, ids, turn.Input)
		}
		if previous := gjson.GetBytes(kept, "previous_response_id").Str; previous != "resp_2" || x.Previous() != previous {
			t.Errorf("%s: it continues %q", name, previous)
		}
		if got := FindItems([]Record{turn}, []string{"msg_8", "none"}); len(got) != 1 || !strings.Contains(string(got["msg_8"]), "four") {
			t.Errorf("%s: found %s", name, got)
		}
	}
	_, x, err := Read([]byte(`{`+hi+`}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x.SetKeep(nil); strings.Contains(fmt.Sprint(x.echo), "true") && x.echo.Store {
		t.Error("it claims to be stored")
	}
}

func TestInputItems(t *testing.T) {
	turns := []Record{
		{json.RawMessage(`[{"id":"a"},{"id":"b"}]`), json.RawMessage(`{"output":[{"id":"c"}]}`)},
		{json.RawMessage(`[{"id":"d"}]`), json.RawMessage(`{"output":[{"id":"e"}]}`)},
	}
	for query, want := range map[string]string{
		"":                        "d c b a",
		"order=asc":               "a b c d",
		"order=asc&limit=2":       "a b, more",
		"limit=2&after=c":         "b a",
		"order=asc&after=d":       "",
		"limit=0":                 "limit: must be a whole number from 1 to 100",
		"limit=101":               "limit: must be a whole number from 1 to 100",
		"limit=x":                 "limit: must be a whole number from 1 to 100",
		"order=up":                "order: must be asc or desc",
		"after=e":                 "after: must be the id of an item of the list",
		"order=asc&limit=1&after": "a, more",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		page, err := InputItems(turns, values)
		var got string
		if err != nil {
			got = apierr.From(err).Text
		} else {
			var ids []string
			for _, item := range page.Data {
				ids = append(ids, gjson.GetBytes(item, "id").Str)
			}
			got = strings.Join(ids, " ")
			if page.HasMore {
				got += ", more"
			}
			if len(ids) > 0 && (*page.FirstID != ids[0] || *page.LastID != ids[len(ids)-1]) {
				t.Errorf("%s: first %s, last %s of %q", query, *page.FirstID, *page.LastID, ids)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// Messages come back in the one form that clients read, however they were written.
func TestShownItems(t *testing.T) {
	for item, want := range map[string]string{
		`{"role":"user","content":"a\"b"}`: `{"role":"user","content":[{"type":"input_text","text":"a\"b"}],"type":"message","status":"completed"}`,
		`{"type":"message","role":"assistant","content":"a"}`: `{"type":"message","role":"assistant",` +
			`"content":[{"type":"output_text","text":"a","annotations":[]}],"status":"completed"}`,
		`{"type":"message","role":"user","status":"incomplete","content":[{"type":"input_text","text":"a"}]}`: "",
		`{"type":"function_call_output","call_id":"c","output":"a"}`:                                          "",
		`{"id":"a"}`: "",
	} {
		if want == "" {
			want = item
		}
		if got := string(shown(json.RawMessage(item))); got != want {
			t.Errorf("%s is shown as\n%s, want\n%s", item, got, want)
		}
	}
}

func TestHistoryGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Row{Name: "turns of a chain", Top: 1 << 12, Make: func(n int) func() {
		long := past{turns: make([]Record, n)}
		for i := range long.turns {
			long.turns[i] = twoTurns.turns[1]
			long.turns[i].Input = json.RawMessage(`[{"id":"m","role":"user","content":"x"}]`)
		}
		return func() { _, _, _ = Read([]byte(`{"previous_response_id":"resp_2","input":"x"}`), nil, long) }
	}}, growth.Row{Name: "references", Top: 1 << 12, Make: func(n int) func() {
		body := []byte(`{"input":[{"id":"msg_9"}` + strings.Repeat(`,{"id":"msg_9"}`, n) + `]}`)
		return func() { _, _, _ = Read(body, nil, twoTurns) }
	}}, growth.Row{Name: "items that are stored", Top: 1 << 12, Make: func(n int) func() {
		body := []byte(`{"input":[{"role":"user","content":"a"}` + strings.Repeat(`,{"role":"user","content":"a"}`, n) + `]}`)
		return func() {
			if _, x, err := Read(body, nil, nil); err == nil {
				_ = ItemIDs(Record{x.Input(), []byte("{}")})
			}
		}
	}})
}
