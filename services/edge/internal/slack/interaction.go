package slack

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/services/platform/jsoncheck"
)

// BlockActions is the type of an interaction with a button. Others are answered and ignored.
const BlockActions = "block_actions"

// maxActions is how many elements of an interaction are looked at: a click has one.
const maxActions = 25

// Interaction is a click on a button of a message.
type Interaction struct {
	Type string
	// App, Team and User are ids. UserTeam is the user's workspace, which differs from Team where a conversation is
	// shared with another one. An app that a whole Enterprise Grid organization has installed belongs to no workspace;
	// then both are the user's workspace.
	App, Team, User, UserTeam string
	// ResponseURL is where an answer may be posted for half an hour; empty for none.
	ResponseURL string
	// Action and Value are what the button was given.
	Action, Value string
}

// payload is the part of Slack's JSON that is read.
type payload struct {
	Type string `json:"type"`
	App  string `json:"api_app_id"`
	Team *struct {
		ID string `json:"id"`
	} `json:"team"`
	OrgWide bool `json:"is_enterprise_install"`
	User    *struct {
		ID   string `json:"id"`
		Team string `json:"team_id"`
	} `json:"user"`
	ResponseURL string `json:"response_url"`
	Actions     []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
	} `json:"actions"`
}

// ErrForm refuses a body that is no interaction.
var ErrForm = errors.New("slack: the body is no interaction")

// value is the form of the values that Switchyard's buttons have, id that of Slack's identifiers.
var (
	value = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	id    = regexp.MustCompile(`^[A-Z][A-Z0-9]{1,31}$`)
)

// Parse reads the body of a request whose signature was verified: a form with one field, which holds JSON.
func Parse(body []byte) (Interaction, error) {
	var i Interaction
	text, ok := strings.CutPrefix(string(body), "payload=")
	if !ok || len(body) > MaxBody || strings.ContainsAny(text, "&;") {
		return i, ErrForm
	}
	text, err := url.QueryUnescape(text)
	if err != nil || !jsoncheck.Valid([]byte(text)) {
		return i, ErrForm
	}
	var p payload
	if json.Unmarshal([]byte(text), &p) != nil || p.Type == "" {
		return i, ErrForm
	}
	i = Interaction{Type: p.Type, App: p.App, ResponseURL: p.ResponseURL}
	if p.Type != BlockActions {
		return i, nil
	}
	if p.Team == nil && !p.OrgWide || p.User == nil || len(p.Actions) == 0 || len(p.Actions) > maxActions {
		return i, ErrForm
	}
	i.Team, i.User, i.UserTeam = p.User.Team, p.User.ID, p.User.Team
	if p.Team != nil {
		i.Team = p.Team.ID
		i.UserTeam = cmp.Or(i.UserTeam, i.Team)
	}
	i.Action, i.Value = p.Actions[0].ID, p.Actions[0].Value
	ids := []string{i.App, i.Team, i.User, i.UserTeam}
	if slices.ContainsFunc(ids, func(text string) bool { return !id.MatchString(text) }) || i.Value != "" && !value.MatchString(i.Value) {
		return i, ErrForm
	}
	return i, nil
}
