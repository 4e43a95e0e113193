package provider

// responseEvent is an event of a response's stream; each kind has some of the fields.
type responseEvent struct {
	Type         string    `json:"type"`
	Sequence     int       `json:"sequence_number"`
	Response     *response `json:"response,omitempty"`
	OutputIndex  *int      `json:"output_index,omitempty"`
	Item         any       `json:"item,omitempty"`
	ItemID       string    `json:"item_id,omitempty"`
	ContentIndex *int      `json:"content_index,omitempty"`
	SummaryIndex *int      `json:"summary_index,omitempty"`
	Part         any       `json:"part,omitempty"`
	Delta        string    `json:"delta,omitempty"`
	Text         *string   `json:"text,omitempty"`
	Arguments    *string   `json:"arguments,omitempty"`
	Input        *string   `json:"input,omitempty"`
}

// streamResponse sends a response as the vendor does: created, in progress, each item from its beginning over its pieces
// to its end, and the whole response.
func streamResponse(out events, base, final response) {
	list := []responseEvent{{Type: "response.created", Response: &base}, {Type: "response.in_progress", Response: &base}}
	for i, item := range final.Output {
		list = append(list, itemEvents(i, item)...)
	}
	list = append(list, responseEvent{Type: "response." + final.Status, Response: &final})
	for number, e := range list {
		e.Sequence = number
		if !out.send(e.Type, encode(e)) {
			return
		}
	}
}

// itemEvents returns the events of one item.
func itemEvents(index int, item any) []responseEvent {
	list := []responseEvent{{Type: "response.output_item.added", Item: begun(item)}}
	switch item := item.(type) {
	case messageItem:
		list = append(list, partEvents(item)...)
	case reasoningItem:
		list = append(list, summaryEvents(item)...)
	case functionItem:
		for _, piece := range words(item.Arguments) {
			list = append(list, responseEvent{Type: "response.function_call_arguments.delta", ItemID: item.ID, Delta: piece})
		}
		list = append(list, responseEvent{Type: "response.function_call_arguments.done", ItemID: item.ID, Arguments: &item.Arguments})
	case customItem:
		for _, piece := range words(item.Input) {
			list = append(list, responseEvent{Type: "response.custom_tool_call_input.delta", ItemID: item.ID, Delta: piece})
		}
		list = append(list, responseEvent{Type: "response.custom_tool_call_input.done", ItemID: item.ID, Input: &item.Input})
	}
	list = append(list, responseEvent{Type: "response.output_item.done", Item: item})
	for i := range list {
		list[i].OutputIndex = &index
	}
	return list
}

// begun returns an item as it is when it begins.
func begun(item any) any {
	switch item := item.(type) {
	case messageItem:
		item.Status, item.Content = "in_progress", []textPart{}
		return item
	case reasoningItem:
		item.Summary, item.Encrypted = []summaryPart{}, ""
		return item
	case functionItem:
		item.Status, item.Arguments = "in_progress", ""
		return item
	case customItem:
		item.Status, item.Input = "in_progress", ""
		return item
	}
	return item
}

// partEvents returns the events of a message's only part.
func partEvents(item messageItem) []responseEvent {
	part, empty := item.Content[0], partOf("")
	list := []responseEvent{{Type: "response.content_part.added", Part: &empty}}
	for _, word := range words(part.Text) {
		list = append(list, responseEvent{Type: "response.output_text.delta", Delta: word})
	}
	list = append(list,
		responseEvent{Type: "response.output_text.done", Text: &part.Text},
		responseEvent{Type: "response.content_part.done", Part: &part},
	)
	for i := range list {
		list[i].ItemID, list[i].ContentIndex = item.ID, new(0)
	}
	return list
}

// summaryEvents returns the events of reasoning, which is shown as a summary of one part.
func summaryEvents(item reasoningItem) []responseEvent {
	part := item.Summary[0]
	list := []responseEvent{{Type: "response.reasoning_summary_part.added", Part: summaryPart{Type: part.Type}}}
	for _, word := range words(part.Text) {
		list = append(list, responseEvent{Type: "response.reasoning_summary_text.delta", Delta: word})
	}
	list = append(list,
		responseEvent{Type: "response.reasoning_summary_text.done", Text: &part.Text},
		responseEvent{Type: "response.reasoning_summary_part.done", Part: part},
	)
	for i := range list {
		list[i].ItemID, list[i].SummaryIndex = item.ID, new(0)
	}
	return list
}
