package approver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// group returns a group whose members have every channel.
func group() approver.Group {
	return approver.Group{
		Name: "default",
		Members: []approver.Member{
			{User: "ann", Email: "ann@example.com", Slack: &approver.SlackUser{Team: "T01", User: "U01"}},
			{User: "bob"},
		},
		Steps: []approver.Step{
			{After: "0s", Channels: []string{"in_app", "web_push", "email", "slack"}},
			{After: "10m", Channels: []string{"slack", "in_app"}, Users: []string{"bob"}, SlackChannel: "C01"},
		},
	}
}

func TestCheck(t *testing.T) {
	if err := approver.Check([]approver.Group{group()}); err != nil {
		t.Error(err)
	}
	none := group()
	none.Steps = nil
	if err := approver.Check([]approver.Group{none}); err != nil {
		t.Errorf("a group without steps: %v", err)
	}
	long := strings.Repeat("x", 3000)
	for name, tt := range map[string]struct {
		change func(*approver.Group)
		field  string
	}{
		"no name":                   {func(g *approver.Group) { g.Name = "" }, "groups[0].name"},
		"a name with capitals":      {func(g *approver.Group) { g.Name = "Ops" }, "groups[0].name"},
		"no members":                {func(g *approver.Group) { g.Members = nil }, "groups[0].members"},
		"many members":              {func(g *approver.Group) { g.Members = make([]approver.Member, 21) }, "groups[0].members"},
		"no user":                   {func(g *approver.Group) { g.Members[1].User = "" }, "groups[0].members[1].user_id"},
		"a long user":               {func(g *approver.Group) { g.Members[1].User = long }, "groups[0].members[1].user_id"},
		"a user of two lines":       {func(g *approver.Group) { g.Members[1].User = "a\nb" }, "groups[0].members[1].user_id"},
		"a user twice":              {func(g *approver.Group) { g.Members[1].User = "ann" }, "groups[0].members[1].user_id"},
		"no address":                {func(g *approver.Group) { g.Members[1].Email = "Bob <b@c.d>" }, "groups[0].members[1].email"},
		"a team of Slack":           {func(g *approver.Group) { g.Members[0].Slack.Team = "acme" }, "groups[0].members[0].slack_user.team_id"},
		"a user of Slack":           {func(g *approver.Group) { g.Members[0].Slack.User = "@ann" }, "groups[0].members[0].slack_user.user_id"},
		"a user of Slack twice":     {func(g *approver.Group) { g.Members[1].Slack = g.Members[0].Slack }, "groups[0].members[1].slack_user"},
		"many steps":                {func(g *approver.Group) { g.Steps = make([]approver.Step, 6) }, "groups[0].steps"},
		"no time":                   {func(g *approver.Group) { g.Steps[0].After = "" }, "groups[0].steps[0].after"},
		"a time before":             {func(g *approver.Group) { g.Steps[0].After = "-1s" }, "groups[0].steps[0].after"},
		"a long time":               {func(g *approver.Group) { g.Steps[1].After = "169h" }, "groups[0].steps[1].after"},
		"steps at once":             {func(g *approver.Group) { g.Steps[1].After = "0s" }, "groups[0].steps[1].after"},
		"no channel":                {func(g *approver.Group) { g.Steps[0].Channels = nil }, "groups[0].steps[0].channels"},
		"many channels":             {func(g *approver.Group) { g.Steps[0].Channels = make([]string, 5) }, "groups[0].steps[0].channels"},
		"another channel":           {func(g *approver.Group) { g.Steps[0].Channels[1] = "webhook" }, "groups[0].steps[0].channels[1]"},
		"a channel twice":           {func(g *approver.Group) { g.Steps[0].Channels[1] = "in_app" }, "groups[0].steps[0].channels[1]"},
		"e-mail to no address":      {func(g *approver.Group) { g.Steps[0].Users = []string{"bob"} }, "groups[0].steps[0].channels[2]"},
		"Slack to no user":          {func(g *approver.Group) { g.Steps[1].SlackChannel = "" }, "groups[0].steps[1].channels[0]"},
		"a stranger":                {func(g *approver.Group) { g.Steps[1].Users = []string{"eve"} }, "groups[0].steps[1].users[0]"},
		"a member twice":            {func(g *approver.Group) { g.Steps[1].Users = []string{"bob", "bob"} }, "groups[0].steps[1].users[1]"},
		"many users":                {func(g *approver.Group) { g.Steps[1].Users = make([]string, 21) }, "groups[0].steps[1].users"},
		"a channel's name of Slack": {func(g *approver.Group) { g.Steps[1].SlackChannel = "#ops" }, "groups[0].steps[1].slack_channel"},
		"Slack's without Slack":     {func(g *approver.Group) { g.Steps[1].Channels = []string{"in_app"} }, "groups[0].steps[1].slack_channel"},
	} {
		t.Run(name, func(t *testing.T) {
			g := group()
			tt.change(&g)
			e := apierr.From(approver.Check([]approver.Group{g}))
			if e == nil || !strings.HasPrefix(e.Text, tt.field+":") || strings.Contains(e.Text, "xxx") {
				t.Errorf("%v, want a refusal of %s without the value", e, tt.field)
			}
		})
	}
	if e := apierr.From(approver.Check([]approver.Group{group(), group()})); e == nil || !strings.HasPrefix(e.Text, "groups[1].name:") {
		t.Errorf("two groups of one name: %v", e)
	}
	if e := apierr.From(approver.Check(make([]approver.Group, 21))); e == nil || !strings.HasPrefix(e.Text, "groups:") {
		t.Errorf("21 groups: %v", e)
	}
}

// An id of Slack begins with a letter for its kind: U or W (in an Enterprise Grid) for users, and C, D or G for
// conversations.
func TestIDsOfSlack(t *testing.T) {
	for user, ok := range map[string]bool{"U0123ABCD": true, "W012A3CDE": true, "B0123ABCD": false, "C0123ABCD": false, "T0123ABCD": false} {
		g := group()
		g.Members[0].Slack.User = user
		if err := approver.Check([]approver.Group{g}); (err == nil) != ok {
			t.Errorf("user %s: %v, want ok %t", user, err, ok)
		}
	}
	for place, ok := range map[string]bool{"C0123ABCD": true, "D0123ABCD": true, "G0123ABCD": true, "U0123ABCD": false, "W012A3CDE": false} {
		g := group()
		g.Steps[1].SlackChannel = place
		if err := approver.Check([]approver.Group{g}); (err == nil) != ok {
			t.Errorf("conversation %s: %v, want ok %t", place, err, ok)
		}
	}
}

func TestMembers(t *testing.T) {
	g := group()
	if m := g.BySlack(approver.SlackUser{Team: "T01", User: "U01"}); m == nil || m.User != "ann" {
		t.Errorf("the user of Slack is %v, want ann", m)
	}
	for _, other := range []approver.SlackUser{{}, {Team: "T02", User: "U01"}, {Team: "T01", User: "U02"}} {
		if m := g.BySlack(other); m != nil {
			t.Errorf("%v is %s", other, m.User)
		}
	}
	if g.Member("eve") != nil || g.Member("") != nil || g.Member("bob") == nil {
		t.Error("members are found by their own names only")
	}
}

func FuzzCheck(f *testing.F) {
	text, _ := json.Marshal([]approver.Group{group()})
	f.Add(string(text))
	f.Fuzz(func(t *testing.T, text string) {
		groups, err := approver.Decode([]byte(text))
		if err != nil || approver.Check(groups) != nil {
			return
		}
		again, err := json.Marshal(groups)
		if err != nil {
			t.Fatal(err)
		}
		if groups, err = approver.Decode(again); err != nil || approver.Check(groups) != nil {
			t.Errorf("%s is refused when it is read again: %v", again, err)
		}
	})
}

func TestCheckGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`[{"name":`, growth.JSON, "}]"), growth.Around(`[{"name":"a","members":`, growth.ValidJSON, "}]")...)
	growth.Linear(t, growth.EachText(inputs, func(text string) {
		if groups, err := approver.Decode([]byte(text)); err == nil {
			_ = approver.Check(groups)
		}
	})...)
}

func ExampleFind() {
	groups := []approver.Group{{Name: "ops"}, {Name: approver.Default}}
	fmt.Println(approver.Find(groups, "default").Name, approver.Find(groups, "dev") == nil)
	// Output: default true
}
