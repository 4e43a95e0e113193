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

// CheckWire counts what the bytes of a message hold.
var CheckWire = checkWire

// DecodeForTest reads a message of the gRPC face.
func DecodeForTest(rawJSON protoreflect.ExtensionType, text []byte, m proto.Message) error {
	return newWireCodec(newCodec(rawJSON, nil)).decode(text, m)
}

// NewCodecForTest gives tests the codec without a server.
var NewCodecForTest = newCodec

// BoundBodyForTest gives tests the limit of ServeHTTP without a listener.
var BoundBodyForTest = boundBody

// UnmarshalStandard reads a body without the quick way.
func UnmarshalStandard(c *codec, data []byte, m proto.Message) error {
	return c.unmarshalStandard(data, m)
}

// UnmarshalFast reads a body the quick way, or tells that it does not take it.
func UnmarshalFast(c *codec, data []byte, m proto.Message) bool { return c.unmarshalFast(data, m) }

// RawOf reads a text as the value of a field of raw JSON.
func RawOf(text string) ([]byte, bool) {
	s := scanner{text: []byte(text)}
	return s.raw()
}
