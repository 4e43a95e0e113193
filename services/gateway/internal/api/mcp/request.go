package mcp

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// maxBody is the largest request, in bytes.
const maxBody = 4 << 20

// incoming is a request that follows the rules of its revision.
type incoming struct {
	message wire.Message
	// modern reports whether the request is of the revision without sessions. version is the one that it names; empty for
	// none.
	modern  bool
	version string
	// name is that of the tool that is called; empty for other methods.
	name string
	// taskID is the caller's id of a task.
	taskID string
	// uri is that of a resource; ref is what a completion is for, argument what it completes, and context what it depends on.
	uri                    string
	ref, argument, context json.RawMessage
	// arguments and meta are members of params; nil for none.
	arguments json.RawMessage
	meta      map[string]json.RawMessage
	// inputs are the answers of a later round, and state what it brings back; nil for none.
	inputs, state json.RawMessage
	// token is that of progress; nil for none.
	token json.RawMessage
	// level is the least severe level of log messages that the caller wants; empty for none.
	level string
	// cursor is that of a list.
	cursor string
	// session is nil for a request without one.
	session *session.Session
	// header has what mirrors the arguments.
	header http.Header
}

// refusal is the answer to a request that breaks a rule of the protocol.
type refusal struct {
	status int
	id     json.RawMessage
	err    wire.Error
}

func refuse(status int, code int64, text string) *refusal {
	return &refusal{status: status, err: wire.Error{Code: code, Message: text}}
}

func (f *refusal) write(w http.ResponseWriter) { writeText(w, f.status, f.text()) }

// text returns the message. An error that belongs to no request has no id.
func (f *refusal) text() []byte {
	if f.id != nil {
		return (&wire.Message{ID: f.id, Error: &f.err}).Append(nil)
	}
	text := (&wire.Message{Error: &f.err}).Append(nil)
	return []byte(strings.Replace(string(text), `"id":null,`, "", 1))
}

// versions returns the versions of the protocol that are served, the newest first.
func versions() []string {
	return []string{wire.Modern, wire.Legacy20251125, wire.Legacy20250618, wire.Legacy20250326}
}

// read reads a request and checks it by the rules of its revision.
func read(header http.Header, body []byte) (*incoming, *refusal) {
	if refused := checkTransport(header, body); refused != nil {
		return nil, refused
	}
	message, err := wire.Parse(body)
	if err != nil {
		code := int64(wire.CodeInvalidRequest)
		if errors.Is(err, wire.ErrJSON) {
			code = wire.CodeParse
		}
		return nil, refuse(http.StatusBadRequest, code, "body: "+err.Error())
	}
	in := &incoming{message: message, header: header}
	refused := in.read()
	if refused == nil {
		refused = in.check()
	}
	if refused != nil && message.IsRequest() {
		refused.id = message.ID
	}
	return in, refused
}

// checkTransport checks what streamable HTTP demands of every request.
func checkTransport(header http.Header, body []byte) *refusal {
	if len(body) > maxBody {
		return refuse(http.StatusRequestEntityTooLarge, wire.CodeInvalidRequest, "body: larger than "+strconv.Itoa(maxBody)+" bytes")
	}
	if kind, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, wire.CodeInvalidRequest, "Content-Type: must be application/json")
	}
	accept := strings.ToLower(strings.Join(header["Accept"], ","))
	if len(header["Accept"]) == 0 { // RFC 9110, section 12.5.1: any type.
		return nil
	}
	if !strings.Contains(accept, "*/*") && (!strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream")) {
		return refuse(http.StatusNotAcceptable, wire.CodeInvalidRequest, "Accept: must have application/json and text/event-stream")
	}
	return nil
}

// read reads what the methods need of params.
func (in *incoming) read() *refusal {
	var refused *refusal
	wrong := func(field, rule string) {
		if refused == nil {
			refused = refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params."+field+": "+rule)
		}
	}
	if in.message.Params == nil {
		return nil
	}
	wire.Members(in.message.Params, func(name string, value []byte) bool {
		var ok bool
		switch name {
		case "name":
			if in.name, ok = wire.Text(value); !ok || in.name == "" || len(in.name) > maxName {
				wrong(name, "must be a string of 1 to 256 bytes")
			}
		case "taskId":
			if in.taskID, ok = wire.Text(value); !ok {
				wrong(name, "must be a string")
			}
		case "uri":
			if in.uri, ok = wire.Text(value); !ok || !upstream.IsURI(in.uri) {
				wrong(name, "must be a URI of at most 2048 bytes")
			}
		case "ref":
			in.ref = value
		case "argument":
			in.argument = value
		case "inputResponses":
			in.inputs = value
		case "requestState":
			in.state = value
		case "context":
			in.context = value
		case "cursor":
			if in.cursor, ok = wire.Text(value); !ok || in.cursor == "" {
				wrong(name, "must be the nextCursor of a page")
			}
		case "arguments":
			if in.arguments = value; value[0] != '{' {
				wrong(name, "must be an object")
			}
		case "_meta":
			if !in.readMeta(value) {
				wrong(name, "must be an object of at most 64 members and 16 KiB")
			}
		}
		return true
	})
	if token := in.meta[wire.MetaProgress]; refused == nil && token != nil {
		if in.token = token; !isToken(token) {
			wrong("_meta.progressToken", "must be a string or an integer of at most 256 bytes")
		}
	}
	return refused
}

// Bounds of params, in bytes and members.
const (
	maxName    = 256
	maxToken   = 256
	maxMeta    = 16 << 10
	maxMembers = 64
)

func (in *incoming) readMeta(value []byte) bool {
	in.meta = make(map[string]json.RawMessage)
	return len(value) <= maxMeta && wire.Members(value, func(name string, value []byte) bool {
		in.meta[name] = value
		return len(in.meta) <= maxMembers
	}) && len(in.meta) <= maxMembers
}

func isToken(value []byte) bool {
	if len(value) > maxToken {
		return false
	}
	_, err := strconv.ParseInt(string(value), 10, 64)
	return err == nil || value[0] == '"'
}

// check finds the request's revision and applies its rules.
func (in *incoming) check() *refusal {
	named := in.header.Get(wire.HeaderVersion)
	meta, inMeta := in.meta[wire.MetaVersion]
	if !inMeta && (named == "" || wire.IsLegacy(named)) && in.message.Method != wire.MethodDiscover {
		in.version = named
		return nil
	}
	in.modern = true
	if !inMeta && named != wire.Modern && named != "" && !wire.IsLegacy(named) {
		return unsupported(named)
	}
	if in.message.IsResponse() {
		return refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "body: must be a request or a notification")
	}
	if in.message.IsNotification() {
		return nil // The rules of headers are for requests.
	}
	var ok bool
	if in.version, ok = wire.Text(meta); !ok {
		return refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params._meta."+wire.MetaVersion+": is required")
	}
	if refused := in.checkHeaders(named); refused != nil {
		return refused
	}
	if in.version != wire.Modern {
		return unsupported(in.version)
	}
	if level, named := in.meta[wire.MetaLogLevel]; named {
		if in.level, _ = wire.Text(level); wire.Level(in.level) < 0 {
			return refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params._meta."+wire.MetaLogLevel+": must be a level of RFC 5424, such as warning")
		}
	}
	if capabilities := in.meta[wire.MetaCapabilities]; capabilities == nil || capabilities[0] != '{' {
		return refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params._meta."+wire.MetaCapabilities+": must be an object")
	}
	return nil
}

// checkHeaders compares the headers with the body that they mirror.
func (in *incoming) checkHeaders(version string) *refusal {
	if version != in.version {
		return mismatch(wire.HeaderVersion, "params._meta")
	}
	if in.header.Get(wire.HeaderMethod) != in.message.Method {
		return mismatch(wire.HeaderMethod, "method")
	}
	field, want := "name", in.name
	switch in.message.Method {
	case wire.MethodCallTool, wire.MethodGetPrompt:
	case wire.MethodReadResource:
		field, want = "uri", in.uri
	case wire.MethodGetTask, wire.MethodUpdateTask, wire.MethodCancelTask:
		field, want = "taskId", in.taskID
	default:
		return nil
	}
	if want == "" {
		return nil // It is missing in the body, which is another error.
	}
	if name, ok := wire.DecodeHeader(in.header.Get(wire.HeaderName)); !ok || name != want {
		return mismatch(wire.HeaderName, "params."+field)
	}
	return nil
}

func mismatch(header, field string) *refusal {
	return refuse(http.StatusBadRequest, wire.CodeHeaderMismatch, header+": is required and must be equal to "+field)
}

// unsupported answers a version that isn't served. What was requested is repeated only if it may be one.
func unsupported(requested string) *refusal {
	refused := refuse(http.StatusBadRequest, wire.CodeUnsupportedVersion, wire.HeaderVersion+": this version of the protocol is not served")
	data := struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{Supported: versions()}
	if len(requested) <= len(wire.Modern) {
		data.Requested = requested
	}
	refused.err.Data, _ = jsontext.Marshal(data) // Texts can't fail.
	return refused
}

// checkMirrored compares the headers that mirror arguments, as the tool's schema demands.
func (in *incoming) checkMirrored(definition json.RawMessage) *refusal {
	var schema json.RawMessage
	wire.Members(definition, func(name string, value []byte) bool {
		if name == "inputSchema" {
			schema = value
		}
		return schema == nil
	})
	if schema == nil {
		return nil
	}
	params, err := wire.Params(schema)
	if err != nil {
		return nil // The schema mirrors nothing; no server is asked to.
	}
	arguments := in.arguments
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	for _, p := range params {
		want, present := p.Value(arguments)
		got := in.header.Values(p.Header)
		if present != (len(got) == 1) || present && !same(want, got[0]) {
			return &refusal{http.StatusBadRequest, in.message.ID, wire.Error{
				Code: wire.CodeHeaderMismatch, Message: p.Header + ": is required and must be equal to params.arguments." + strings.Join(p.Path, "."),
			}}
		}
	}
	return nil
}

// same reports whether a header has a value, however it is encoded. Integers compare as numbers.
func same(want, got string) bool {
	a, _ := wire.DecodeHeader(want)
	b, ok := wire.DecodeHeader(got)
	if !ok {
		return false
	}
	if a == b {
		return true
	}
	x, err := strconv.ParseInt(a, 10, 64)
	y, other := strconv.ParseInt(b, 10, 64)
	return err == nil && other == nil && x == y
}
