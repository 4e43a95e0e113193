package provider

// resultsFirst returns messages in which the results of calls stand directly behind the turn that made them, in their
// order; what stood between follows them. Most vendors refuse another order. A result whose call no turn before it made
// stays in its place. Messages that are in this order already are returned as they are.
func resultsFirst(messages []Message) []Message {
	if inOrder(messages) {
		return messages
	}
	turns := make(map[string]int)        // the last turn before with a call, by the ID of the call
	results := make(map[int][]Message)   // by the turn that they belong to
	moved := make([]bool, len(messages)) // whether a message is among results
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
	ordered := make([]Message, 0, len(messages))
	for i := range messages {
		if !moved[i] {
			ordered = append(append(ordered, messages[i]), results[i]...)
		}
	}
	return ordered
}

// inOrder reports whether only results stand between each call and its result.
func inOrder(messages []Message) bool {
	var turns map[string]int
	last := -1 // the last message that is no result
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
