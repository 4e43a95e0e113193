package slack

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/deploy/fakes/fault"
)

// The methods of the Web API that are served.
const (
	apiPath    = "/api/"
	postMethod = "chat.postMessage"
	updMethod  = "chat.update"
)

// Bounds of the Web API, in characters.
const (
	maxPostText   = 40_000
	maxUpdateText = 4_000
)

// The errors of the Web API, beside those of hooks.
const (
	errNotAuthed       slackError = "not_authed"
	errInvalidAuth     slackError = "invalid_auth"
	errUnknownMethod   slackError = "unknown_method"
	errPostType        slackError = "invalid_post_type"
	errChannelNotFound slackError = "channel_not_found"
	errMessageNotFound slackError = "message_not_found"
	errCantUpdate      slackError = "cant_update_message"
	errTooLong         slackError = "msg_too_long"
)

// conversation is the form of the id of a channel, a conversation or a person.
var conversation = regexp.MustCompile(`^[CDGUW][A-Z0-9]{2,20}$`)

// apiCall is the body of a method.
type apiCall struct {
	Channel string `json:"channel"`
	TS      string `json:"ts"`
	Text    string `json:"text"`
}

// isAPI reports whether a path is of the Web API.
func isAPI(path string) bool { return strings.HasPrefix(path, apiPath) }

// api serves the Web API: errors have status 200.
func (s *Server) api(w http.ResponseWriter, r *http.Request) {
	answer, err := s.call(r)
	if err != nil {
		answer = map[string]any{"ok": false, "error": err.Error()}
	}
	fault.WriteJSON(w, http.StatusOK, answer)
}

func (s *Server) call(r *http.Request) (map[string]any, error) {
	method := strings.TrimPrefix(r.URL.Path, apiPath)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case method != postMethod && method != updMethod, r.Method != http.MethodPost:
		return nil, errUnknownMethod
	case !given:
		return nil, errNotAuthed
	case !strings.HasPrefix(token, "xoxb-"):
		return nil, errInvalidAuth
	case kind != "application/json":
		return nil, errPostType
	}
	payload, err := readPayload(r)
	if err != nil {
		return nil, err
	}
	var c apiCall
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, errInvalidPayload
	}
	if err := check(payload); err != nil {
		return nil, err
	}
	if !conversation.MatchString(c.Channel) {
		return nil, errChannelNotFound
	}
	return s.write(method, fault.HashSecret(token), c, payload)
}

// write posts a message, or changes one of the same token.
func (s *Server) write(method, token string, c apiCall, payload json.RawMessage) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := maxPostText
	if method == updMethod {
		most = maxUpdateText
		switch owner, there := s.owners[c.Channel+" "+c.TS]; {
		case !there:
			return nil, errMessageNotFound
		case owner != token:
			return nil, errCantUpdate
		}
	} else {
		s.posts++
		c.TS = fmt.Sprintf("%d.%06d", time.Now().Unix(), s.posts)
		if strings.ContainsRune("UW", rune(c.Channel[0])) { // A message to a person is in the conversation with them.
			c.Channel = "D" + c.Channel[1:]
		}
	}
	if utf8.RuneCountInString(c.Text) > most {
		return nil, errTooLong
	}
	if len(s.owners) >= maxMessages {
		clear(s.owners)
	}
	s.owners[c.Channel+" "+c.TS] = token
	s.messages.Add(Message{Time: time.Now().UTC(), Method: method, Channel: c.Channel, TS: c.TS, Payload: payload}, len(payload))
	return map[string]any{"ok": true, "channel": c.Channel, "ts": c.TS, "message": payload}, nil
}
