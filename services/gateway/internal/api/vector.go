package api

import (
	"math"
	"strconv"
)

// appendVector appends numbers that parse as the same float32, for answers with thousands of them.
func appendVector(dst []byte, vector []float32) []byte {
	dst = append(dst, '[')
	for i, x := range vector {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendFloat(dst, x)
	}
	return append(dst, ']')
}

// appendFloat writes nearly all numbers of a unit vector with a fixed number of decimals, at a fifth of the cost of the
// shortest form. That is exact: a float32 has 24 bits, and 5^10 and 5^12 have at most 28, so the product is a whole
// float64; and half a unit of the last decimal is less than half the distance to the next float32.
func appendFloat(dst []byte, x float32) []byte {
	size := math.Abs(float64(x))
	switch {
	case size >= 1 || size < 1.0/(1<<16):
		format := byte('f')
		if size != 0 && (size < 1e-6 || size >= 1e21) {
			format = 'e'
		}
		return strconv.AppendFloat(dst, float64(x), format, -1, 32)
	case x < 0:
		dst = append(dst, '-')
	}
	if size >= 1.0/(1<<9) {
		return appendDecimals(dst, uint64(math.RoundToEven(size*1e10)), 10)
	}
	return appendDecimals(dst, uint64(math.RoundToEven(size*1e12)), 12)
}

// appendDecimals appends "0." and n with that many decimals, without trailing zeros. n is not 0.
func appendDecimals(dst []byte, n uint64, places int) []byte {
	for n%10 == 0 {
		n /= 10
		places--
	}
	from := len(dst) + 2
	dst = append(dst, "0.000000000000"[:2+places]...)
	for i := from + places - 1; n > 0; i-- {
		rest := n / 10
		dst[i] = byte('0' + n - 10*rest)
		n = rest
	}
	return dst
}
