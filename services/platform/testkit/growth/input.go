package growth

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Input is a way to write inputs of any size.
type Input struct {
	Name string
	// Unit is about how many bytes a unit has; 1 if it is zero.
	Unit int
	// Most is how many bytes there are at most, about; MostBytes if it is zero.
	Most int
	Make func(n int) []byte
}

// MostBytes is the largest input, about: well below what the services take, and
// enough for what is quadratic to be seen.
const MostBytes = 128 << 10

// MostNested is MostBytes of nested inputs, for which recursion without a bound
// needs more stack than is allowed.
const MostNested = 480 << 10

// top is how many units make the largest input.
func (i Input) top() int { return max(cmp.Or(i.Most, MostBytes)/max(i.Unit, 1), 4*step) }

// In puts what is round an input: before and after it, byte for byte.
func (i Input) In(before, after string) Input {
	inner := i.Make
	i.Make = func(n int) []byte {
		return append(append([]byte(before), inner(n)...), after...)
	}
	return i
}

// Each is a row for each input, whose work is to read it.
func Each(inputs []Input, read func(text []byte)) []Row {
	rows := make([]Row, len(inputs))
	for i, input := range inputs {
		rows[i] = Row{Name: input.Name, Top: input.top(), Make: func(n int) func() {
			text := input.Make(n)
			return func() { read(text) }
		}}
	}
	return rows
}

// UpTo gives the inputs another size at most, in bytes.
func UpTo(most int, inputs []Input) []Input {
	all := slices.Clone(inputs)
	for i := range all {
		all[i].Most = most
	}
	return all
}

// EachText is Each for what reads a string.
func EachText(inputs []Input, read func(text string)) []Row {
	return Each(inputs, func(text []byte) { read(string(text)) })
}

// Around puts what is round each of some inputs.
func Around(before string, inputs []Input, after string) []Input {
	all := make([]Input, len(inputs))
	for i, input := range inputs {
		all[i] = input.In(before, after)
	}
	return all
}

// Repeat is an input of one piece over and over, in a frame.
func Repeat(name, before, unit, after string) Input {
	return Input{Name: name, Unit: len(unit), Make: func(n int) []byte {
		return append(bytes.Repeat([]byte(unit), n), after...)
	}}.In(before, "")
}

// Number is an input of pieces that differ: each # of the unit is the piece's number.
func Number(name, before, unit, after string) Input {
	return Input{Name: name, Unit: len(unit) + 5*strings.Count(unit, "#"), Make: func(n int) []byte {
		text := []byte(before)
		for i := range n {
			text = append(text, strings.ReplaceAll(unit, "#", strconv.Itoa(i))...)
		}
		return append(text, after...)
	}}
}

// Nest is an input of n pieces, what is inside, and n pieces to close them.
func Nest(name, open, inside, closed string) Input {
	return Input{Name: name, Unit: len(open) + len(closed), Most: MostNested, Make: func(n int) []byte {
		text := append(bytes.Repeat([]byte(open), n), inside...)
		return append(text, bytes.Repeat([]byte(closed), n)...)
	}}
}

// JSON are hostile JSON values: deep, wide, long, and broken.
var JSON = slices.Clip(slices.Concat([]Input{
	Nest("open arrays", "[", "", ""),
	Nest("open objects", `{"a":`, "", ""),
	Repeat("an open string", `"`, "a", ""),
	Repeat("brackets that don't match", "", "[}", ""),
	Repeat("spaces", "", " ", ""),
	Repeat("nothing after a comma", "[", ",", "]"),
}, ValidJSON))

// ValidJSON are hostile JSON values that are valid.
var ValidJSON = []Input{
	Nest("arrays in arrays", "[", "", "]"),
	Nest("objects in objects", `{"a":`, "1", "}"),
	Nest("both in each other", `[{"a":`, "1", "}]"),
	Repeat("a long string", `"`, "a", `"`),
	Repeat("an escaped string", `"`, `\u0041`, `"`),
	Repeat("escaped quotes", `"`, `\"`, `"`),
	Repeat("pairs of surrogates", `"`, `\ud83d\ude00`, `"`),
	Repeat("single surrogates", `"`, `\ud83d`, `"`),
	Repeat("wide characters", `"`, "\u00e9\u2028", `"`),
	Repeat("digits", "1", "0", ""),
	Repeat("a fraction", "0.", "9", ""),
	Repeat("an exponent", "1e", "9", ""),
	Repeat("numbers", "[0", ",1", "]"),
	Repeat("strings", `[""`, `,"a b"`, "]"),
	Repeat("objects", "[{}", `,{"a":"b"}`, "]"),
	Number("members", `{"a":1`, `,"a#":1`, "}"),
	Repeat("one member many times", `{"a":1`, `,"a":1`, "}"),
	Repeat("space between", "[", " ", "]"),
}

// Text are runs of what formats give a meaning to, alone and in turns.
var Text = texts()

func texts() (inputs []Input) {
	for _, unit := range []string{
		"a", "A", "0", " ", "\t", "\n", "\r\n", ",", ";", ":", ".", "/", "//", "\\", `"`, "'", "%", "%41", "%2", "@", "&", "&a=b", "?", "#", "=", "+",
		"-", "_", "*", "?*", "a*", "[", "]", "{", "}", "(", ")", "<", ">", "|", "$", "é", "\xff", "\x00", "a.", "a,", "a:", "a b ", "a=b,", "a=b;", "1,", "10s", "../",
	} {
		inputs = append(inputs, Repeat(strconv.Quote(unit), "", unit, ""))
	}
	return slices.Clip(inputs) // Tests append to it.
}
