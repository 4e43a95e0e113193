// Package capacity is the district of what is divided between callers: concurrency and memory of one replica, and the
// tokens per minute that all replicas share.
//
// It knows no product noun. Everything above it calls it: the vendor adapters before they hold an answer, the serving
// pipeline before it calls a vendor. From the bottom up: memory limits each organization to a share of the bytes of
// answers and images; quota keeps calls within token limits and queues them.
package capacity
