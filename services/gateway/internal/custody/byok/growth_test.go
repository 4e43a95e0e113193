package byok

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestLooksRawGrowsLinearly(t *testing.T) {
	inputs := growth.Text
	for _, unit := range []string{"sk-", "sk-a ", "AIza", "eyJ.", "a.b.", "aB1", "key-for-the-team ", "sk-ant-", "AKIA0"} {
		inputs = append(inputs, growth.Repeat(unit, "", unit, ""))
	}
	growth.Linear(t, growth.EachText(growth.UpTo(32<<10, inputs), func(text string) { _ = LooksRaw(text) })...)
}
