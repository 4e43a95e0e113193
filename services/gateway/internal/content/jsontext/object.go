package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json/jsontext"
)

// Object writes a JSON object member by member. It is for the few objects that every request pays for: encoding them by
// reflection costs several times as much.
type Object struct {
	// Out is what is written so far; a value may be appended to it after Name.
	Out []byte
	// Err is the error of the first value that JSON can't represent.
	Err error
}

// Begin opens an object, appending to dst.
func Begin(dst []byte) Object { return Object{Out: append(dst, '{')} }

// End closes the object and returns everything that was written.
func (o *Object) End() []byte { return append(o.Out, '}') }

// Name begins a member. The name is written without escaping.
func (o *Object) Name(name string) {
	if o.Out[len(o.Out)-1] != '{' {
		o.Out = append(o.Out, ',')
	}
	o.Out = append(append(append(o.Out, '"'), name...), '"', ':')
}

// Text writes a string. Invalid UTF-8 becomes U+FFFD.
func (o *Object) Text(name, value string) {
	o.Name(name)
	o.Out = AppendText(o.Out, value)
}

// Int writes a whole number.
func (o *Object) Int(name string, value int64) {
	o.Name(name)
	o.Out = strconv.AppendInt(o.Out, value, 10)
}

// Float writes a number in its shortest form, without an exponent. NaN and infinities set Err.
func (o *Object) Float(name string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		o.fail(name, errors.New("is not a number that JSON can represent"))
	}
	o.Name(name)
	o.Out = strconv.AppendFloat(o.Out, value, 'f', -1, 64)
}

// Bool writes true or false.
func (o *Object) Bool(name string, value bool) {
	o.Name(name)
	o.Out = strconv.AppendBool(o.Out, value)
}

// Null writes null.
func (o *Object) Null(name string) {
	o.Name(name)
	o.Out = append(o.Out, "null"...)
}

// Time writes a time in the format of RFC 3339, with nanoseconds.
func (o *Object) Time(name string, value time.Time) {
	o.Name(name)
	o.Out = append(value.AppendFormat(append(o.Out, '"'), time.RFC3339Nano), '"')
}

// Value writes any value by encoding/json. It is for rare members.
func (o *Object) Value(name string, value any) {
	o.Name(name)
	out := bytes.NewBuffer(o.Out)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		o.fail(name, err)
		return
	}
	o.Out = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

func (o *Object) fail(name string, err error) {
	if o.Err == nil {
		o.Err = fmt.Errorf("%s: %w", name, err)
	}
}

// TextNonEmpty writes a string, or no member if value is "".
func (o *Object) TextNonEmpty(name, value string) {
	if value != "" {
		o.Text(name, value)
	}
}

// TextOrNull writes a string, or null if value is nil.
func (o *Object) TextOrNull(name string, value *string) {
	if value == nil {
		o.Null(name)
		return
	}
	o.Text(name, *value)
}

// IntNonZero writes a whole number, or no member if value is 0.
func (o *Object) IntNonZero(name string, value int64) {
	if value != 0 {
		o.Int(name, value)
	}
}

// BoolIfTrue writes true, or no member if value is false.
func (o *Object) BoolIfTrue(name string, value bool) {
	if value {
		o.Bool(name, value)
	}
}

// AppendText appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendText(dst []byte, text string) []byte {
	if plain(text) {
		return append(append(append(dst, '"'), text...), '"')
	}
	dst, _ = jsonv2.AppendQuote(dst, text) // The error only reports the replacement.
	return dst
}

// plain reports whether text is ASCII that needs no escaping in JSON. It looks at eight bytes at a time, because
// conversations are kilobytes long.
func plain(text string) bool {
	for len(text) >= 8 {
		if special(uint64(text[0])|uint64(text[1])<<8|uint64(text[2])<<16|uint64(text[3])<<24|
			uint64(text[4])<<32|uint64(text[5])<<40|uint64(text[6])<<48|uint64(text[7])<<56) != 0 {
			return false
		}
		text = text[8:]
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// special returns a value other than 0 if one of eight bytes is a control character, a quote, a backslash or not ASCII.
// Subtracting n sets the high bit of a byte below n, for bytes below 0x80. A byte equals c if it is below 1 after XOR
// with c.
func special(eight uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^(ones*'"'), eight^(ones*'\\')
	return (eight | (eight - ones*' ') | (quote - ones) | (backslash - ones)) & high
}
