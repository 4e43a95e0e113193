package rpc

import "google.golang.org/protobuf/proto"

// NewCodecForTest gives tests the codec without a server.
var NewCodecForTest = newCodec

// BoundBodyForTest gives tests the limit of ServeHTTP without a listener.
var BoundBodyForTest = boundBody

// UnmarshalThoroughly reads a body without the quick way.
func UnmarshalThoroughly(c *codec, data []byte, m proto.Message) error { return c.thorough(data, m) }

// UnmarshalQuickly reads a body the quick way, or tells that it does not take it.
func UnmarshalQuickly(c *codec, data []byte, m proto.Message) bool { return c.quick(data, m) }

// RawOf reads a text as the value of a field of raw JSON.
func RawOf(text string) ([]byte, bool) {
	s := scanner{text: []byte(text)}
	return s.raw()
}
