package inference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Approvals reads people's decisions on tool executions.
type Approvals interface {
	// Get returns an approval of an organization. The error is approval.ErrNotFound where it has none of this ref.
	Get(ctx context.Context, organization, ref string) (approval.Approval, error)
}

// Reasons of tool calls that are withheld from the caller.
const (
	ReasonApprovalRequired apierr.Reason = "approval_required"
	ReasonApprovalDenied   apierr.Reason = "approval_denied"
)

// approvalTime bounds the time to read an approval.
const approvalTime = 2 * time.Second

func withheld(reason apierr.Reason, tool, why string) error {
	return &apierr.Error{
		Kind: apierr.KindForbidden, Reason: reason, Class: apierr.ClassPolicy,
		Text: fmt.Sprintf("tool %s: %s", screen.Quote(tool), why),
	}
}

// toolApprovals finds the approvals that the tool calls of one request need. Not safe for concurrent use.
type toolApprovals struct {
	source  Approvals // nil: there are none
	needs   func(tool string) bool
	request *Request
	// found is the approval that the request names, once a tool call has asked for it.
	found *approval.Approval
}

// needsApproval reports whether calls of any of these names need one.
func (a *toolApprovals) needsApproval(names ...string) bool {
	return a.needs != nil && slices.ContainsFunc(names, a.needs)
}

// approve returns the approval of a tool's calls, or an error. An approval of certain arguments is still to be compared
// with them.
func (a *toolApprovals) approve(ctx context.Context, tool string) (*approval.Approval, error) {
	if a.request.ApprovalRef == "" || a.source == nil {
		return nil, withheld(ReasonApprovalRequired, tool, "needs an approval; approval_ref names none")
	}
	if a.found == nil {
		ctx, cancel := context.WithTimeout(ctx, approvalTime)
		defer cancel()
		found, err := a.source.Get(ctx, a.request.Organization, a.request.ApprovalRef)
		switch {
		case errors.Is(err, approval.ErrNotFound):
			return nil, withheld(ReasonApprovalRequired, tool, "needs an approval; there is none of approval_ref")
		case err != nil:
			return nil, apierr.Unavailable("approvals can't be read at the moment", err)
		}
		found = found.At(time.Now())
		a.found = &found
	}
	if !a.found.Names(a.toolCall(tool, "")) {
		return nil, withheld(ReasonApprovalRequired, tool, "needs an approval; the one of approval_ref is for another tool or run")
	}
	switch a.found.Status {
	case approval.Approved:
		return a.found, nil
	case approval.Denied:
		return nil, withheld(ReasonApprovalDenied, tool, "the approval was denied")
	case approval.Expired, approval.Superseded:
		return nil, withheld(approval.ReasonExpired, tool, "the approval has expired")
	case approval.Pending:
	}
	return nil, withheld(ReasonApprovalRequired, tool, "the approval is pending")
}

func (a *toolApprovals) toolCall(tool, arguments string) approval.Call {
	return approval.Call{Organization: a.request.Organization, Run: a.request.Run, Tool: tool, Arguments: arguments}
}

// approveCall returns an error unless one call with its arguments is approved.
func (a *toolApprovals) approveCall(ctx context.Context, tool, arguments string) error {
	found, err := a.approve(ctx, tool)
	if err == nil && !found.Covers(a.toolCall(tool, arguments)) {
		err = errOtherArguments(tool)
	}
	return err
}

// approveUnseen returns an error unless the calls of a tool are approved that only a vendor's frame names, in a form
// whose arguments are not parsed.
func (a *toolApprovals) approveUnseen(ctx context.Context, tool string) error {
	found, err := a.approve(ctx, tool)
	if err == nil && !found.AnyArguments() {
		err = errOtherArguments(tool)
	}
	return err
}

func errOtherArguments(tool string) error {
	return withheld(ReasonApprovalRequired, tool, "needs an approval; the one of approval_ref is for other arguments")
}

// approveAnswer returns an error unless all calls of a whole answer are approved.
func (a *toolApprovals) approveAnswer(ctx context.Context, calls []provider.ToolCall, native []byte) error {
	if a.needs == nil {
		return nil
	}
	for _, call := range calls {
		if !a.needsApproval(call.Name) {
			continue
		}
		if err := a.approveCall(ctx, call.Name, call.Arguments); err != nil {
			return err
		}
	}
	return a.approveNative(ctx, calls, nil, native)
}

// approveNative returns an error unless the tools are approved that a vendor's frame names and calls don't. repeated are
// the names of calls that were approved before.
func (a *toolApprovals) approveNative(ctx context.Context, calls []provider.ToolCall, repeated []string, native []byte) error {
	found := names(native)
	if len(found) == 0 {
		return nil
	}
	known := make(map[string]bool, len(calls))
	for i := range calls {
		known[calls[i].Name] = true
	}
	for _, name := range repeated {
		known[name] = true
	}
	for _, name := range found {
		if known[name] || !a.needsApproval(name) {
			continue
		}
		if err := a.approveUnseen(ctx, name); err != nil {
			return err
		}
		known[name] = true
	}
	return nil
}

// names returns the values of every "name" in a vendor's frame, each once: it is the name of the tool in each kind of
// call of each dialect, also in future ones. The "name" members of a call's arguments name other things.
func names(native []byte) (found []string) {
	if !mayName(native) {
		return nil
	}
	seen := make(map[string]bool)
	decoder := jsontext.NewDecoder(bytes.NewBuffer(native), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return found // At the end of the frame, which was checked when it arrived.
		}
		kind, at := decoder.StackIndex(decoder.StackDepth())
		if kind != '{' || at%2 == 0 || token.Kind() != '"' { // Not the name of a member.
			continue
		}
		switch token.String() {
		case "input", "arguments":
			if decoder.SkipValue() != nil {
				return found
			}
		case "name":
			if decoder.PeekKind() != '"' {
				continue
			}
			value, err := decoder.ReadToken()
			if name := value.String(); err == nil && !seen[name] {
				seen[name] = true
				found = append(found, name)
			}
		}
	}
}

// mayName reports whether a frame may hold a member "name", however it is written.
func mayName(native []byte) bool {
	return bytes.Contains(native, []byte(`"name"`)) || bytes.Contains(native, []byte(`\u`))
}
