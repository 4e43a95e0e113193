package wire

import (
	"math"

	"github.com/tidwall/gjson"
)

// Vector reads a list of numbers that 32 bits can hold. An empty list is an error too.
func Vector(value gjson.Result) ([]float32, error) {
	var numbers []float32
	broken := !value.IsArray()
	value.ForEach(func(_, n gjson.Result) bool {
		broken = broken || n.Type != gjson.Number || math.IsInf(float64(float32(n.Num)), 0)
		numbers = append(numbers, float32(n.Num))
		return !broken
	})
	if broken || len(numbers) == 0 {
		return nil, Malformed("a vector is missing or holds a value that is not a number", nil)
	}
	return numbers, nil
}
