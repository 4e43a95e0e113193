package redact

import (
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/content/jsontext"
)

// hidden stands in place of a credential.
const hidden = "[" + string(KindAPIKey) + "]"

// credentialEndings lists how the names of members that hold a credential end, as plain writes
// them: what OpenAI, Anthropic, Gemini and Azure call the credentials of a tool's server, a search index, or a container, and
// common names in HTTP and in arguments of tools.
var credentialEndings = byLastLetter(
	"accesskey", "apikey", "apikeystring", "auth", "authconfig", "authentication", "authorization", "bearer",
	"connectionstring", "cookie", "cookies", "credential", "credentials", "functionskey", "jwt", "passphrase", "passwd",
	"password", "privatekey", "secret", "secretkey", "secrets", "subscriptionkey", "token",
)

func byLastLetter(all ...string) (endings [128][]string) {
	for _, ending := range all {
		last := ending[len(ending)-1]
		endings[last] = append(endings[last], ending)
	}
	return endings
}

// The names of members with rules of their own, in the form of credentialEndings.
const (
	// nameHeaders ends the names for HTTP headers for a tool's server: each value is a credential.
	nameHeaders = "headers"
	// nameServerURL ends the names for the URL of a tool's server. Its user, its query and, at some hosts, its path are credentials.
	nameServerURL = "serverurl"
	// nameServers holds servers of tools, whose URLs are called url.
	nameServers = "mcpservers"
	nameURL     = "url"
	// nameToken is a piece of the answer within log probabilities, and a credential elsewhere.
	nameToken = "token"
)

// maxName bounds the end of a name that is compared, in bytes.
const maxName = 32

// plain returns the end of a name as names are compared: its letters in lower case.
func plain(name string) string {
	var buffer [maxName]byte
	at := maxName
	for i := len(name) - 1; i >= 0 && at > 0; i-- {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if isLetter(c) {
			at--
			buffer[at] = c
		}
	}
	return string(buffer[at:])
}

// isCredential reports whether a member with a plain name holds a credential.
func isCredential(plain string) bool {
	if plain == "" {
		return false
	}
	for _, ending := range credentialEndings[plain[len(plain)-1]] {
		if strings.HasSuffix(plain, ending) {
			return true
		}
	}
	return false
}

// Named returns the value of a named entry with all matches replaced, or hidden if the name is a credential's. It adds
// the kinds of what was removed to found.
func (r *Redactor) Named(name, value string, found Kinds) string {
	if name := plain(name); isCredential(name) || strings.HasSuffix(name, nameHeaders) {
		found[KindAPIKey] = true
		return hidden
	}
	return r.Text(value, found)
}

// Credentials returns a valid JSON text without the credentials in members that are named for them, also in JSON within
// its strings, and with all else as it was.
func Credentials(text []byte) []byte { return credentials(text, 0) }

func credentials(text []byte, depth int) []byte {
	return jsontext.Rewrite(text, hiding(jsontext.Change{String: func(text string) (string, bool) {
		if depth == maxDepth || !holdsJSON(text) {
			return "", false
		}
		shown := string(credentials([]byte(text), depth+1))
		return shown, shown != text
	}}, func() {}))
}

// ServerCredentials returns the tools or the prompt of a request, as its answer repeats them, without the credentials of
// tools' servers. Functions and custom tools, which have no server, stay as they are.
func ServerCredentials(value []byte) []byte {
	tools := gjson.ParseBytes(value)
	if !tools.IsArray() {
		return Credentials(value)
	}
	var out []byte
	done := 0
	tools.ForEach(func(_, tool gjson.Result) bool {
		if kind := tool.Get("type").Str; kind != "function" && kind != "custom" {
			out = append(append(out, value[done:tool.Index]...), Credentials([]byte(tool.Raw))...)
			done = tool.Index + len(tool.Raw)
		}
		return true
	})
	if done == 0 {
		return value
	}
	return append(out, value[done:]...)
}

// hiding returns a change that hides credentials, and does to all else what change does. It calls found for each
// credential.
func hiding(change jsontext.Change, found func()) jsontext.Change {
	hide := func(string) (string, bool) { found(); return hidden, true }
	root, headers, urls, servers, scalars, schemas, logprobs := change, change, change, change, change, change, change
	root.Member = func(name string) (string, *jsontext.Change) {
		switch name = plain(name); {
		case isCredential(name):
			found()
			return hidden, nil
		case strings.HasSuffix(name, nameHeaders):
			return "", &headers
		case strings.HasSuffix(name, nameServerURL):
			return "", &urls
		}
		switch name {
		case nameServers:
			return "", &servers
		case "properties", "patternproperties", "defs", "definitions", "dependentschemas":
			return "", &schemas
		case "logprobs", "logprobsresult":
			return "", &logprobs
		}
		return "", &root
	}
	headers.String, headers.Number = hide, hide
	headers.Member = func(string) (string, *jsontext.Change) { found(); return hidden, nil }
	urls.Number = hide
	urls.String = func(text string) (string, bool) {
		shown := origin(text)
		if shown != text {
			found()
		}
		if replacement, changed := change.String(shown); changed {
			shown = replacement
		}
		return shown, shown != text
	}
	// Some members have another meaning where they stand; all others are changed as anywhere.
	servers.Member = except(&root, &servers, nameURL, &urls)
	logprobs.Member = except(&root, &logprobs, nameToken, &logprobs)
	// A JSON schema names the properties that it describes. An object there is a description, anything else a value.
	scalars.String, scalars.Number, scalars.Member = hide, hide, root.Member
	schemas.Member = func(name string) (string, *jsontext.Change) {
		plain := plain(name)
		if isCredential(plain) || strings.HasSuffix(plain, nameHeaders) || strings.HasSuffix(plain, nameServerURL) {
			return "", &scalars
		}
		return root.Member(name)
	}
	return root
}

// except returns the Member of within, a part of root: special has another Change there, and all other names have the
// same as in root.
func except(root, within *jsontext.Change, special string, other *jsontext.Change) func(string) (string, *jsontext.Change) {
	return func(name string) (string, *jsontext.Change) {
		if plain(name) == special {
			return "", other
		}
		instead, then := root.Member(name)
		if then == root {
			then = within
		}
		return instead, then
	}
}

// origin returns a URL without its user, path, query and fragment. It returns hidden if the text is not a URL.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return hidden
	}
	shown := u.Scheme + "://" + u.Host
	if text == shown || text == shown+"/" {
		return text
	}
	return shown + "/" + hidden
}
