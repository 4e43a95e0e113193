package rpc

import "google.golang.org/protobuf/proto"

// NewCodecForTest gives tests the codec without a server.
var NewCodecForTest = newCodec

// BoundBodyForTest gives tests the limit of ServeHTTP without a listener.
var BoundBodyForTest = boundBody

// UnmarshalThoroughly reads a body without the quick way.
func UnmarshalThoroughly(c *codec, data []byte, m proto.Message) error { return c.thorough(data, m) }
