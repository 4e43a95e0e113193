// Package capacity is the district of what is divided between callers: concurrency and memory of one replica, and the
// tokens per minute that all replicas share.
//
// It knows no product noun. Everything above it calls it: the vendor adapters before they hold an answer, the serving
// pipeline before it calls a vendor. From the bottom up: memory gives each organization a share of the bytes of answers
// and images; quota keeps calls within limits of tokens, and queues them.
package capacity
