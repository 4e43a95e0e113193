package rpc

// NewCodecForTest gives tests the codec without a server.
var NewCodecForTest = newCodec

// BoundBodyForTest gives tests the limit of ServeHTTP without a listener.
var BoundBodyForTest = boundBody
