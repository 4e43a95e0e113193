package decision

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

//go:embed page.html
var pageText string

//go:embed page.css
var style string

var page = func() *template.Template {
	t := template.Must(template.New("page").Parse(pageText))
	template.Must(t.New("style").Parse(style))
	return t
}()

// policy lets the page use its own style and send its form to its own origin, and nothing else.
var policy = "default-src 'none'; style-src 'sha256-" + digest(style) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// View is what the page shows.
type View struct {
	Title string
	// Notes say what happened, or what to look at.
	Notes []string
	Facts []Fact
	// Arguments are JSON; empty for none. Hidden names the kinds of data that they lack.
	Arguments, Hidden string
	// Nonce is empty for a page without a form; Version is of what is shown.
	Nonce, Version string
}

// Fact is a line of the page. Code is for digests.
type Fact struct {
	Name, Value string
	Code        bool
}

// maxArguments bounds the arguments on the page in bytes; they are shown in full up to it.
const maxArguments = 1 << 20

// Show returns the view of a decision. One that is pending has a form with the nonce.
func Show(d *Decision, nonce string, notes ...string) View {
	v := View{Title: "Decide on a call of " + name(d), Notes: notes, Version: d.Version, Facts: facts(d)}
	if d.Pending() {
		v.Nonce = nonce
	} else {
		v.Title = "This call is decided"
		v.Notes = append(v.Notes, Outcome(d))
	}
	if len(d.Arguments) > 0 && string(d.Arguments) != "null" {
		v.Arguments = indented(d.Arguments)
	}
	if d.Call == nil {
		return v
	}
	v.Hidden = strings.Join(d.Call.Redacted, ", ")
	if d.Call.UnknownRef != nil {
		v.Notes = append(v.Notes, "A call with the same arguments was sent before, and its outcome is unknown (approval "+*d.Call.UnknownRef+
			"). It may have taken effect: approving can make it happen twice.")
	}
	return v
}

// Outcome says how a decision was made.
func Outcome(d *Decision) string {
	text := "It is " + d.Status
	if d.DecidedBy != nil {
		text += " by " + *d.DecidedBy
	}
	if d.DecidedAt != nil {
		text += " at " + When(*d.DecidedAt)
	}
	return text + "."
}

// facts returns the lines of the page.
func facts(d *Decision) []Fact {
	all := []Fact{
		{Name: "You decide as", Value: d.Approver},
		{Name: "Organization", Value: d.Organization},
		{Name: "Server", Value: value(d.Server)},
		{Name: "Tool", Value: d.Tool},
		{Name: "Asked for by", Value: d.RequestedBy},
		{Name: "Run", Value: value(d.Run)},
		{Name: "Information from who asks", Value: d.Description},
	}
	if c := d.Call; c != nil {
		all = append(all, Fact{Name: "Rule of the policy", Value: c.Rule}, Fact{Name: "Price", Value: Cents(c.Cents)},
			Fact{Name: "Definition reviewed by", Value: value(c.ReviewedBy)}, Fact{Name: "Digest of the definition", Value: c.Definition, Code: true},
			Fact{Name: "Digest of the call", Value: c.Digest, Code: true})
	}
	all = append(all, Fact{Name: "Asked for at", Value: When(d.CreatedAt)}, Fact{Name: "Expires at", Value: When(d.ExpiresAt)},
		Fact{Name: "Reason of the decision", Value: value(d.Reason)})
	shown := all[:0]
	for _, f := range all {
		if f.Value = shownText(f.Value); f.Value != "" {
			shown = append(shown, f)
		}
	}
	return shown
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func name(d *Decision) string {
	if d.Server == nil || *d.Server == "" {
		return shownText(d.Tool)
	}
	return shownText(*d.Server + "/" + d.Tool)
}

// Cents returns an amount of cents as text, with the decimal number that the gateway's JSON has.
func Cents(amount float64) string { return strconv.FormatFloat(amount, 'f', -1, 64) + " cents" }

// When returns a moment in words.
func When(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04:05 MST") }

// maxIndent is how deep JSON may be that is indented: each level makes every line below it longer.
const maxIndent = 16

// depth returns how deep JSON is.
func depth(text []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// indented returns JSON with indentation. Text that is not JSON, or that is too long or nested too deep, stays as it is.
func indented(text json.RawMessage) string {
	var out bytes.Buffer
	if len(text) > maxArguments || depth(text) > maxIndent || json.Indent(&out, text, "", "  ") != nil {
		return shownText(string(text[:min(len(text), maxArguments)]))
	}
	return shownText(out.String())
}

// shownText returns a text in which characters that are not seen, or that change the order of others, are escaped: what a
// person reads is what is decided.
func shownText(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == ' ' || unicode.IsPrint(r) && r != unicode.ReplacementChar:
			out.WriteRune(r)
		default:
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return out.String()
}

// Unknown is the page of a token that there is not.
func Unknown() View {
	return View{Title: "This link can't be used", Notes: []string{"It never was one, or it ended with a decision that was made long ago. Look at the message that you have it from."}}
}

// Over is the page of an approval that has expired.
func Over() View {
	return View{Title: "This call has expired", Notes: []string{"No approver decided in time, or the tool or the policy has changed since. Who asked has to ask again."}}
}

// Failed is the page of what can't be done now.
func Failed(note string) View {
	return View{Title: "This can't be done now", Notes: []string{note}}
}

// Write answers with a page.
func Write(w http.ResponseWriter, status int, v View) error {
	var out bytes.Buffer
	if err := page.Execute(&out, v); err != nil {
		return fmt.Errorf("page of a decision: %w", err)
	}
	setHeaders(w.Header(), policy)
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // The client may have disconnected.
	return nil
}

// setHeaders sets the headers of a page with a content security policy.
func setHeaders(h http.Header, policy string) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
