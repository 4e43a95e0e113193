package rpc

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The rules of a message as a whole.
const (
	RuleItems = ruleItems
	RuleWire  = ruleWire
)

// CheckWire applies the rules of a whole message to its bytes.
var CheckWire = checkWire

// DecodeForTest decodes a message as the gRPC face does.
func DecodeForTest(rawJSON protoreflect.ExtensionType, text []byte, m proto.Message) error {
	return newWireCodec(newCodec(rawJSON, nil)).decode(text, m)
}

// NewCodecForTest returns the codec without a server.
var NewCodecForTest = newCodec

// BoundBodyForTest applies the body limit of ServeHTTP without a listener.
var BoundBodyForTest = boundBody

// UnmarshalStandard reads a body with protojson.
func UnmarshalStandard(c *codec, data []byte, m proto.Message) error {
	return c.unmarshalStandard(data, m)
}

// UnmarshalFast reads a body with unmarshalFast and reports whether it accepted the body.
func UnmarshalFast(c *codec, data []byte, m proto.Message) bool { return c.unmarshalFast(data, m) }

// RawOf reads a text as the value of a raw JSON field.
func RawOf(text string) ([]byte, bool) {
	s := scanner{text: []byte(text)}
	return s.raw()
}

// PlainRule returns the text of a broken rule in plain words.
var PlainRule = plainRule
