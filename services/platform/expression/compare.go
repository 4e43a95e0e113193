package expression

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// comparison is a call of ==, != or in. The library counts the cost of a call when it has returned. A comparison of two
// values that hold others many times over would not return, so a comparison counts its cost first.
type comparison struct {
	interpreter.InterpretableCall
}

// countFirst decorates the calls that compare values.
func countFirst(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if call, ok := node.(interpreter.InterpretableCall); ok && compares(call.Function()) && len(call.Args()) == 2 {
		return comparison{call}, nil
	}
	return node, nil
}

func compares(function string) bool {
	return function == operators.Equals || function == operators.NotEquals || function == operators.In
}

// Eval implements interpreter.Interpretable.
func (c comparison) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// Exec implements interpreter.InterpretableV2.
func (c comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	var values [2]ref.Val
	for i, arg := range c.Args() {
		if values[i] = arg.Exec(frame); types.IsUnknownOrError(values[i]) {
			return values[i]
		}
	}
	left, right := values[0], values[1]
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, c.ID(), c, left, right, nil)
	}
	switch c.Function() {
	case operators.Equals:
		return types.Equal(left, right)
	case operators.NotEquals:
		return types.Bool(types.Equal(left, right) != types.True)
	}
	if container, ok := right.(traits.Container); ok {
		return container.Contains(left)
	}
	return types.MaybeNoSuchOverloadErr(right)
}

// maxWeight is the weight beyond which a comparison costs too much in any case.
const maxWeight = 10 * (MaxCost + 1)

// weight returns ten for each value within a value, and one for each byte of text; maxWeight for any more. It stops there,
// since a value that an expression has made may hold others in exponential number.
func weight(value ref.Val) uint64 { return uint64(maxWeight - max(0, lighten(value, maxWeight))) }

// lighten subtracts a value's weight from left and returns the rest, which is negative if the value weighs more.
func lighten(value any, left int) int {
	if sized, ok := value.(traits.Sizer); ok { // Value copies a list that was made of others.
		if size, ok := sized.Size().(types.Int); ok && (size < 0 || int(size) > left) { // It may have overflowed.
			return -1
		}
	}
	if v, ok := value.(ref.Val); ok {
		value = v.Value()
	}
	if left -= 10; left < 0 {
		return left
	}
	switch v := value.(type) {
	case string:
		return left - len(v)
	case []byte:
		return left - len(v)
	case map[string]any:
		return lightenMap(v, left)
	case map[ref.Val]ref.Val:
		return lightenMap(v, left)
	case []any:
		return lightenList(v, left)
	case []ref.Val:
		return lightenList(v, left)
	}
	return left
}

func lightenMap[K comparable, V any](m map[K]V, left int) int {
	for name, field := range m {
		if left = lighten(field, lighten(name, left)); left < 0 {
			return left
		}
	}
	return left
}

func lightenList[V any](list []V, left int) int {
	for _, element := range list {
		if left = lighten(element, left); left < 0 {
			return left
		}
	}
	return left
}
