// Package vendors is the district of calls that leave the gateway: the dialects of AI providers, and the images that a
// request names by URL.
//
// Package provider defines the neutral request, answer, stream and error; each package below it translates one dialect.
// The serving pipeline and the probes call adapters through provider's interfaces only. From the bottom up: provider,
// then sse and wire (framing and HTTP calls that dialects share), then one package a dialect; adapter
// lists the dialects. network makes the connections of all of them. imagefetch and modelid, which knows the names of models
// at their hosts, are independent of them.
package vendors
