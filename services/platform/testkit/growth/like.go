package growth

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// BodiesLike returns hostile JSON bodies of a format that no message describes. Each is base, a valid body, with one of
// its members too long, too deep, too many or of another kind, or with members that it doesn't have.
func BodiesLike(base string) []Input {
	return append(like(base, "", 0), besides(base)...)
}

// like returns hostile objects of which base is a valid one; none if it isn't an object.
func like(base, path string, inside int) (inputs []Input) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(base), &members) != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(members))
	for _, name := range names {
		var begin strings.Builder
		begin.WriteByte('{')
		for _, other := range names {
			if other != name {
				begin.WriteString(quoted(other) + ":" + string(members[other]) + ",")
			}
		}
		begin.WriteString(quoted(name) + ":")
		before := begin.String()
		for _, value := range valuesLike(string(members[name]), path+name, inside) {
			inputs = append(inputs, value.In(before, "}"))
		}
		inputs = append(inputs, Repeat(path+name+" many times", before+"null", ","+quoted(name)+":null", "}"))
	}
	return inputs
}

// valuesLike returns hostile values of a member with a valid value.
func valuesLike(base, path string, inside int) (inputs []Input) {
	inputs = slices.Clone(anyValues)
	if inside < mostInside {
		inputs = append(inputs, like(base, "", inside+1)...)
	}
	switch base[0] {
	case '"':
		inputs = append(inputs, stringValues...)
	case '{':
		inputs = append(inputs, mapValues...)
	case '[':
		item := element(base)
		if item == "" {
			item = "{}"
		}
		inputs = append(inputs, many(item)...)
		if inside < mostInside {
			inputs = append(inputs, Around("[", like(item, "", inside+1), "]")...)
		}
	}
	for i := range inputs {
		inputs[i].Name = path + " " + inputs[i].Name
	}
	return inputs
}

func quoted(name string) string {
	text, _ := json.Marshal(name) // a string never fails
	return string(text)
}
