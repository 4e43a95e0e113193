package growth

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Input generates inputs of any size.
type Input struct {
	Name string
	// Unit is the approximate size of a unit in bytes; zero means 1.
	Unit int
	// Most is the approximate maximum size in bytes; zero means MostBytes.
	Most int
	Make func(n int) []byte
}

// MostBytes is the approximate size of the largest input: well below what the services accept, and enough to detect
// quadratic work.
const MostBytes = 128 << 10

// MostNested is MostBytes for nested inputs. With it, unbounded recursion needs more stack than permitted.
const MostNested = 480 << 10

// top returns how many units the largest input has.
func (i Input) top() int { return max(cmp.Or(i.Most, MostBytes)/max(i.Unit, 1), 4*step) }

// In returns the input enclosed by before and after, byte for byte.
func (i Input) In(before, after string) Input {
	inner := i.Make
	i.Make = func(n int) []byte {
		return append(append([]byte(before), inner(n)...), after...)
	}
	return i
}

// Each returns a row for each input, whose work is to read it.
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

// UpTo returns the inputs with another maximum size in bytes.
func UpTo(most int, inputs []Input) []Input {
	all := slices.Clone(inputs)
	for i := range all {
		all[i].Most = most
	}
	return all
}

// EachText is Each for functions that read a string.
func EachText(inputs []Input, read func(text string)) []Row {
	return Each(inputs, func(text []byte) { read(string(text)) })
}

// Around encloses each of the inputs by before and after.
func Around(before string, inputs []Input, after string) []Input {
	all := make([]Input, len(inputs))
	for i, input := range inputs {
		all[i] = input.In(before, after)
	}
	return all
}

// Repeat returns an input that repeats one unit between before and after.
func Repeat(name, before, unit, after string) Input {
	return Input{Name: name, Unit: len(unit), Make: func(n int) []byte {
		return append(bytes.Repeat([]byte(unit), n), after...)
	}}.In(before, "")
}

// Number returns an input whose units differ: each # of the unit is replaced by the unit's number.
func Number(name, before, unit, after string) Input {
	return Input{Name: name, Unit: len(unit) + 5*strings.Count(unit, "#"), Make: func(n int) []byte {
		text := []byte(before)
		for i := range n {
			text = append(text, strings.ReplaceAll(unit, "#", strconv.Itoa(i))...)
		}
		return append(text, after...)
	}}
}

// Nest returns an input of n opening units, inside, and n closing units.
func Nest(name, open, inside, closed string) Input {
	return Input{Name: name, Unit: len(open) + len(closed), Most: MostNested, Make: func(n int) []byte {
		text := append(bytes.Repeat([]byte(open), n), inside...)
		return append(text, bytes.Repeat([]byte(closed), n)...)
	}}
}

// JSON are hostile JSON values: deep, wide, long, and malformed.
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

// Text are repetitions of characters and words that have a meaning in some format.
var Text = texts()

func texts() (inputs []Input) {
	for _, unit := range []string{
		"a", "A", "0", " ", "\t", "\n", "\r\n", ",", ";", ":", ".", "/", "//", "\\", `"`, "'", "%", "%41", "%2", "@", "&", "&a=b", "?", "#", "=", "+",
		"-", "_", "*", "?*", "a*", "[", "]", "{", "}", "(", ")", "<", ">", "|", "$", "é", "\xff", "\x00", "a.", "a,", "a:", "a b ", "a=b,", "a=b;", "1,", "10s", "../",
	} {
		inputs = append(inputs, Repeat(strconv.Quote(unit), "", unit, ""))
	}
	return slices.Clip(inputs) // Clipped, because tests append to it.
}
