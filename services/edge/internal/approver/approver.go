// Package approver reaches the people who decide on the calls of tools that wait for an approval: an organization's groups
// name them and the steps by which they are notified, one after another until one of them has decided. [Groups] keeps the
// groups; [Informer] follows the approvals, on one replica at a time.
package approver

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/apierr"
)

// The bounds of an organization's groups.
const (
	MaxGroups  = 20
	MaxMembers = 20 // of a group
	MaxSteps   = 5  // of a group
	// MaxAfter is the longest time after which a step is due: an approval lives no longer.
	MaxAfter = 7 * 24 * time.Hour
)

// Default is the name of the group that decides where a policy's rule names none.
const Default = "default"

// Patterns of names of groups and of identifiers of Slack (team, user, conversation). They are regular expressions of RE2
// and of ECMA-262.
const (
	NamePattern         = `^[a-z0-9][a-z0-9_-]{0,63}$`
	SlackTeamPattern    = `^T[A-Z0-9]{2,20}$`
	SlackUserPattern    = `^[UW][A-Z0-9]{2,20}$`
	SlackChannelPattern = `^[CDG][A-Z0-9]{2,20}$`
)

var (
	groupName    = regexp.MustCompile(NamePattern)
	slackTeam    = regexp.MustCompile(SlackTeamPattern)
	slackUser    = regexp.MustCompile(SlackUserPattern)
	slackChannel = regexp.MustCompile(SlackChannelPattern)
)

// Group is who decides on approvals that name it, and how these people are notified.
type Group struct {
	// Name is unique among the groups of an organization.
	Name    string   `json:"name"`
	Members []Member `json:"members"`
	// Steps are in the order of their times. Without any the members are not notified: they decide where they see it.
	Steps []Step `json:"steps,omitempty"`
}

// Member is a person who may decide.
type Member struct {
	// User is the member's name as the product knows it. It is unique in the group.
	User  string     `json:"user_id"`
	Email string     `json:"email,omitempty"`
	Slack *SlackUser `json:"slack_user,omitempty"`
}

// SlackUser is a user of a workspace of Slack, unique in the group.
type SlackUser struct {
	Team string `json:"team_id"`
	User string `json:"user_id"`
}

// Step notifies members by channels, if no member has decided when it is due.
type Step struct {
	// After is the time since the approval began to wait, as time.ParseDuration reads it.
	After    string   `json:"after"`
	Channels []string `json:"channels"`
	// Users are the members that the step notifies; empty for all.
	Users []string `json:"users,omitempty"`
	// SlackChannel is a conversation that has one message for the step; without it each member with a user of Slack has a
	// direct message.
	SlackChannel string `json:"slack_channel,omitempty"`
}

// Due returns the time since the approval began to wait.
func (s *Step) Due() time.Duration {
	after, _ := time.ParseDuration(s.After) // It is checked when it is set.
	return after
}

// names reports whether the step notifies a member.
func (s *Step) names(m *Member) bool {
	return len(s.Users) == 0 || slices.Contains(s.Users, m.User)
}

// Channels are those that a step may have.
func Channels() []string { return []string{alert.InApp, alert.WebPush, alert.Email, alert.Slack} }

// Member returns the member of a name; nil if there is none.
func (g *Group) Member(user string) *Member {
	i := slices.IndexFunc(g.Members, func(m Member) bool { return m.User == user })
	if i < 0 {
		return nil
	}
	return &g.Members[i]
}

// BySlack returns the member with a user of Slack; nil if there is none.
func (g *Group) BySlack(user SlackUser) *Member {
	i := slices.IndexFunc(g.Members, func(m Member) bool { return m.Slack != nil && *m.Slack == user })
	if i < 0 {
		return nil
	}
	return &g.Members[i]
}

// Find returns the group of a name; nil if there is none.
func Find(groups []Group, name string) *Group {
	i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return &groups[i]
}

// Check refuses groups that are out of bounds or have no meaning. The error names the field and the rule, and repeats no
// value.
func Check(groups []Group) error {
	if len(groups) > MaxGroups {
		return apierr.Invalid("groups", fmt.Sprintf("must be at most %d", MaxGroups))
	}
	names := make(map[string]bool, len(groups))
	for i := range groups {
		g, at := &groups[i], fmt.Sprintf("groups[%d].", i)
		switch {
		case !groupName.MatchString(g.Name):
			return apierr.Invalid(at+"name", "must be 1 to 64 lower-case letters, digits, _ and -, of which the first is a letter or digit")
		case names[g.Name]:
			return apierr.Invalid(at+"name", "is the name of another group")
		}
		names[g.Name] = true
		if err := g.checkMembers(at); err != nil {
			return err
		}
		if err := g.checkSteps(at); err != nil {
			return err
		}
	}
	return nil
}

// checkMembers checks the members of the group at a path.
func (g *Group) checkMembers(at string) error {
	if len(g.Members) < 1 || len(g.Members) > MaxMembers {
		return apierr.Invalid(at+"members", fmt.Sprintf("must be 1 to %d", MaxMembers))
	}
	users, slack := make(map[string]bool, len(g.Members)), make(map[SlackUser]bool, len(g.Members))
	for i, m := range g.Members {
		of := fmt.Sprintf("%smembers[%d].", at, i)
		switch {
		case m.User == "" || !alert.IsText(m.User, alert.MaxUser):
			return apierr.Invalid(of+"user_id", fmt.Sprintf("must be a text of one line, from 1 to %d bytes", alert.MaxUser))
		case users[m.User]:
			return apierr.Invalid(of+"user_id", "is another member of the group")
		case m.Email != "" && !alert.IsEmail(m.Email):
			return apierr.Invalid(of+"email", "must be an address of at most 256 bytes")
		}
		users[m.User] = true
		if m.Slack == nil {
			continue
		}
		switch {
		case !slackTeam.MatchString(m.Slack.Team):
			return apierr.Invalid(of+"slack_user.team_id", "must be the id of a workspace, such as T0123ABCD")
		case !slackUser.MatchString(m.Slack.User):
			return apierr.Invalid(of+"slack_user.user_id", "must be the id of a user, such as U0123ABCD")
		case slack[*m.Slack]:
			return apierr.Invalid(of+"slack_user", "is another member of the group")
		}
		slack[*m.Slack] = true
	}
	return nil
}

// checkSteps checks the steps of the group at a path.
func (g *Group) checkSteps(at string) error {
	if len(g.Steps) > MaxSteps {
		return apierr.Invalid(at+"steps", fmt.Sprintf("must be at most %d", MaxSteps))
	}
	last := time.Duration(-1)
	for i := range g.Steps {
		s, of := &g.Steps[i], fmt.Sprintf("%ssteps[%d].", at, i)
		after, err := time.ParseDuration(s.After)
		if err != nil || after < 0 || after > MaxAfter {
			return apierr.Invalid(of+"after", "must be a duration from 0s to 168h, such as 10m")
		}
		if after <= last {
			return apierr.Invalid(of+"after", "must be longer than that of the step before")
		}
		last = after
		if err := g.checkStep(s, of); err != nil {
			return err
		}
	}
	return nil
}

// checkStep checks what a step names, and that each of its channels reaches a member.
func (g *Group) checkStep(s *Step, at string) error {
	if len(s.Channels) < 1 || len(s.Channels) > len(Channels()) {
		return apierr.Invalid(at+"channels", fmt.Sprintf("must be 1 to %d", len(Channels())))
	}
	if len(s.Users) > MaxMembers {
		return apierr.Invalid(at+"users", fmt.Sprintf("must be at most %d", MaxMembers))
	}
	for i, user := range s.Users {
		if g.Member(user) == nil || slices.Contains(s.Users[:i], user) {
			return apierr.Invalid(fmt.Sprintf("%susers[%d]", at, i), "must be a member of the group, and only once")
		}
	}
	if s.SlackChannel != "" && !slackChannel.MatchString(s.SlackChannel) {
		return apierr.Invalid(at+"slack_channel", "must be the id of a conversation, such as C0123ABCD")
	}
	for i, channel := range s.Channels {
		switch of := fmt.Sprintf("%schannels[%d]", at, i); {
		case !slices.Contains(Channels(), channel) || slices.Contains(s.Channels[:i], channel):
			return apierr.Invalid(of, "must be in_app, web_push, email or slack, and only once")
		case !g.reached(s, channel):
			return apierr.Invalid(of, "reaches none of the step's members: email needs an address, and slack a slack_user or slack_channel")
		}
	}
	if s.SlackChannel != "" && !slices.Contains(s.Channels, alert.Slack) {
		return apierr.Invalid(at+"slack_channel", "is only for steps with the channel slack")
	}
	return nil
}

// reached reports whether a step's channel has a recipient.
func (g *Group) reached(s *Step, channel string) bool {
	if channel == alert.Slack && s.SlackChannel != "" {
		return true
	}
	return slices.ContainsFunc(g.Members, func(m Member) bool { return s.names(&m) && m.takes(channel) })
}

// takes reports whether a member has what a channel needs.
func (m *Member) takes(channel string) bool {
	switch channel {
	case alert.Email:
		return m.Email != ""
	case alert.Slack:
		return m.Slack != nil
	}
	return true
}

// Decode reads stored groups.
func Decode(text []byte) (groups []Group, err error) {
	if err := json.Unmarshal(text, &groups); err != nil {
		return nil, fmt.Errorf("approver groups: %w", err)
	}
	return groups, nil
}
