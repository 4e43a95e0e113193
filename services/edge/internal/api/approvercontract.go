package api

import (
	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/platform/apidoc"
)

// approversTarget is where the role control answers the groups of approvers, see package approver.
const approversTarget = "/v1/approvers"

// approverGroupsSchema returns the schema of the groups of an organization, as they are set and read.
func approverGroupsSchema() apidoc.Object {
	groups := object("The groups of an organization.", apidoc.Object{
		"organization_id": keysOrganization(),
		"groups":          listOf("All groups.", 0, approver.MaxGroups, approverGroupSchema()),
	})
	groups["required"] = []any{"groups"}
	return groups
}

func approverGroupSchema() apidoc.Object {
	group := object("Who decides, and how they are reached.", apidoc.Object{
		"name": apidoc.Object{
			"type": "string", "pattern": approver.NamePattern,
			"description": "The group's name, of no other group of the organization. A policy's rule that names no group uses " + approver.Default + ".",
		},
		"members": listOf("The people who may decide.", 1, approver.MaxMembers, approverMemberSchema()),
		"steps":   listOf("How they are notified until one of them has decided, in the order of time.", 0, approver.MaxSteps, approverStepSchema()),
	})
	group["required"] = []any{"name", "members"}
	return group
}

func approverMemberSchema() apidoc.Object {
	user := object("The member's user in Slack, whose buttons decide for the member.", apidoc.Object{
		"team_id": apidoc.Object{"type": "string", "pattern": approver.SlackTeamPattern, "description": "The workspace."},
		"user_id": apidoc.Object{"type": "string", "pattern": approver.SlackUserPattern, "description": "The user in it."},
	})
	user["required"] = []any{"team_id", "user_id"}
	member := object("A person who may decide, unless the call is the person's own.", apidoc.Object{
		"user_id":    bounded("The user, as notifications and approvals name it.", 1, alert.MaxUser),
		"email":      bounded("The address, for the channel email.", 3, alert.MaxText),
		"slack_user": user,
	})
	member["required"] = []any{"user_id"}
	return member
}

func approverStepSchema() apidoc.Object {
	channels := []any{}
	for _, channel := range approver.Channels() {
		channels = append(channels, channel)
	}
	step := object("Who is notified at a time, if no member has decided before.", apidoc.Object{
		"after": apidoc.Object{"type": "string", "description": "The time since the approval began to wait: a duration such as 10m, from 0s to 168h, longer than that of the step before."},
		"channels": listOf("By which channels, each once. email needs a member with an address, slack one with a slack_user, or slack_channel.",
			1, len(channels), apidoc.Object{"type": "string", "enum": channels}),
		"users": listOf("Which members; empty for all.", 0, approver.MaxMembers, bounded("A member's user_id.", 1, alert.MaxUser)),
		"slack_channel": apidoc.Object{
			"type": "string", "pattern": approver.SlackChannelPattern,
			"description": "For slack: the conversation that gets one message; without it each member with a slack_user gets a direct message.",
		},
	})
	step["required"] = []any{"after", "channels"}
	return step
}
