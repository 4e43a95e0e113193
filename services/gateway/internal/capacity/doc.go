// Package capacity is the district of what one replica divides between its callers: concurrency and memory.
//
// It knows no product noun. Everything above it calls it: the vendor adapters before they hold an answer, the serving
// pipeline before it calls a vendor. From the bottom up: fairshare divides a bound between organizations; memory
// applies such shares to the bytes of answers and images.
package capacity
