package decision

import (
	"bytes"
	_ "embed"
	"net/http"
	"text/template"
)

//go:embed own.html
var ownText string

//go:embed own.js
var ownScript string

// ownPage is the page on which an identified person decides. It is made of this package's files and has nothing of
// callers.
var ownPage = func() []byte {
	t := template.Must(template.New("own").Parse(ownText))
	template.Must(t.New("style").Parse(style))
	template.Must(t.New("script").Parse(ownScript))
	var out bytes.Buffer
	if err := t.Execute(&out, nil); err != nil {
		panic(err) // The files are embedded.
	}
	return out.Bytes()
}()

// ownPolicy lets the page use only its own style and script, and call only its own origin.
var ownPolicy = "default-src 'none'; style-src 'sha256-" + digest(style) + "'; script-src 'sha256-" + digest(ownScript) +
	"'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// WriteOwn answers with the page for a person whom a session of the portal or the token of an end user identifies. The
// page itself holds no approval; its script reads it and decides as that person.
func WriteOwn(w http.ResponseWriter) {
	setHeaders(w.Header(), ownPolicy)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(ownPage) // The client may have disconnected.
}
