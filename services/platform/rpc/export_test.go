package rpc

// NewCodecForTest gives tests the codec without a server.
var NewCodecForTest = newCodec
