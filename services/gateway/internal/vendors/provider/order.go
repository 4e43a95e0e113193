package provider

// Bridge is the text of the assistant's turn between results of calls and a turn of the user, for vendors that refuse
// the two next to each other. They refuse an empty one.
const Bridge = "OK."

// resultsFirst moves the results of calls directly after the turn that made the calls, in the results' order, and what
// stood between after them. Most vendors refuse another order. A result without an earlier call stays in its place. If
// the order is already right, it returns messages unchanged.
func resultsFirst(messages []Message) (ordered []Message, changed bool) {
	if inOrder(messages) {
		return messages, false
	}
	turns := make(map[string]int)        // index of the latest turn with a call, by the call's ID
	results := make(map[int][]Message)   // by the index of their turn
	moved := make([]bool, len(messages)) // whether a message is in results
	for i := range messages {
		m := &messages[i]
		for j := range m.ToolCalls {
			turns[m.ToolCalls[j].ID] = i
		}
		if m.Role != RoleTool {
			continue
		}
		if turn, known := turns[m.ToolCallID]; known {
			results[turn], moved[i] = append(results[turn], *m), true
		}
	}
	ordered = make([]Message, 0, len(messages))
	for i := range messages {
		if !moved[i] {
			ordered = append(append(ordered, messages[i]), results[i]...)
		}
	}
	return ordered, true
}

// inOrder reports whether nothing but results stands between each turn with calls and their results.
func inOrder(messages []Message) bool {
	var turns map[string]int
	last := -1 // the latest message that is not a result
	for i := range messages {
		m := &messages[i]
		if m.Role != RoleTool {
			last = i
			if turns == nil && len(m.ToolCalls) > 0 {
				turns = make(map[string]int)
			}
			for j := range m.ToolCalls {
				turns[m.ToolCalls[j].ID] = i
			}
			continue
		}
		if turn, known := turns[m.ToolCallID]; known && turn != last {
			return false
		}
	}
	return true
}
