package approval

import (
	"crypto/sha256"

	"switchyard.dev/services/gateway/internal/content/canonical"
)

// Call is a tool call in a model's answer.
type Call struct {
	Organization, Run string
	Tool, Arguments   string
}

// Names reports whether the approval is for calls of this tool in this run, with any arguments. An approval without a
// run is for every run. One that is bound to an exact call of a tool server is for no call in a model's answer.
func (a Approval) Names(c Call) bool {
	return a.Call == nil && a.Organization == c.Organization && a.Tool == c.Tool && (a.Run == "" || a.Run == c.Run)
}

// AnyArguments reports whether the approval allows any arguments.
func (a Approval) AnyArguments() bool { return a.Arguments == nil }

// Covers reports whether the approval is for this call. Arguments are equal if they are the same JSON value, whatever
// its spacing and order of members.
func (a Approval) Covers(c Call) bool {
	return a.Names(c) && (a.AnyArguments() || digest(a.Arguments) == digest([]byte(c.Arguments)))
}

// digest returns the same sum for the same JSON value: members in any order, numbers as they are written. A text that
// is not JSON, has a duplicate name (which readers resolve differently) or is nested too deeply, equals only the same
// bytes.
func digest(text []byte) [sha256.Size]byte {
	if form, err := canonical.AsWritten(text); err == nil {
		return canonical.Digest("approval-json", form)
	}
	return canonical.Digest("approval-text", text)
}
