package toolcall

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// ApprovalPages is the URL of the page that shows an approval, with RefMark where its reference belongs; empty for none. It is
// for the one who asks, who never decides.
type ApprovalPages string

// RefMark is where the reference of an approval belongs.
const RefMark = "{ref}"

// of returns the page of an approval.
func (p ApprovalPages) of(ref string) string {
	return strings.ReplaceAll(string(p), RefMark, url.PathEscape(ref))
}

// approvalPage is what a call that waits for its approval has of the page that shows it.
type approvalPage struct {
	// waited is what a caller brings back that was sent to the page, which it may have declined to open; nil for none.
	waited   *pending
	declined bool
	// shown is what the caller is asked instead of an answer; nil for nothing.
	shown *upstream.Result
}

// approvalKey names the request that sends a caller to the page of an approval. The answer says that the page may be
// opened, or not, and never that the call is approved.
const approvalKey = "dev.switchyard/approval"

// errShown ends a request that is answered by asking its caller; what is asked is in shown.
var errShown = errors.New("the caller is asked")

// asks returns what the caller is asked in place of an answer, or the error.
func (x *execution) asks(err error) (upstream.Result, error) {
	if errors.Is(err, errShown) {
		return *x.shown, nil
	}
	return upstream.Result{}, err
}

// sends reports whether a caller whose call waits for its approval can be sent to a page that shows it.
func (x *execution) sends() bool {
	c := &x.request.Client
	return x.caller.ApprovalPages != "" && x.caller.seals() && c.comesAgain() && input.CanOpen(c.Capabilities)
}

// sendToPage asks the caller to open the page of its approval and to come back. Nothing was sent to the server.
func (x *execution) sendToPage(ref string) error {
	message := x.server.ID + ": a person has to approve this call of the tool " + x.tool + " (" + ref + "); it is made once that has happened"
	params := jsontext.AppendText([]byte(`{"mode":"url","message":`), message)
	params = append(jsontext.AppendText(append(params, `,"url":`...), x.caller.ApprovalPages.of(ref)), '}')
	put := []input.Request{{Key: approvalKey, Method: wire.MethodElicit, Params: params}}
	waits := &pending{Binding: x.bound, Waits: ref, Asked: []input.Request{put[0].Brief()}}
	text, err := x.seal(waits, put, time.Now().Add(roundsTime))
	if err != nil {
		return err
	}
	x.shown = &upstream.Result{Kind: upstream.KindInputRequired, Text: text, Version: wire.Modern}
	return errShown
}

// isDeclined reports whether an answer, which was checked, declines what was asked.
func isDeclined(answer []byte) bool {
	declined := false
	wire.Members(orEmptyObject(answer), func(name string, value []byte) bool {
		action, _ := wire.Text(value)
		declined = name == "action" && action != input.ActionAccept
		return false
	})
	return declined
}

func orEmptyObject(value []byte) []byte {
	if value == nil {
		return []byte("{}")
	}
	return value
}
