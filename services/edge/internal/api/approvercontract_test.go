package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/approver"
)

// groupsWith returns a body with a group that has one field in place of a valid one.
func groupsWith(field, value string) string {
	group := map[string]json.RawMessage{"name": json.RawMessage(`"default"`), "members": json.RawMessage(`[{"user_id":"ann","email":"ann@example.com"}]`)}
	group[field] = json.RawMessage(value)
	text, _ := json.Marshal(map[string]any{"groups": []any{group}})
	return string(text)
}

// The schema of groups and the code agree on what is a group, on each side of each bound that a schema can have.
func TestApproverGroupsSchema(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	member := func(fields string) string { return groupsWith("members", `[{"user_id":"ann",`+fields+`}]`) }
	step := func(fields string) string { return groupsWith("steps", `[{`+fields+`}]`) }
	checkSchema(t, "/product/v1/ai/approvers", map[string]bool{
		`{"groups":[]}`:                                                      true,
		`{"groups":[{}]}`:                                                    false,
		groupsWith("name", `"a_b-1"`):                                        true,
		groupsWith("name", `"`+long(64)+`"`):                                 true,
		groupsWith("name", `"`+long(65)+`"`):                                 false,
		groupsWith("name", `"A"`):                                            false,
		groupsWith("members", `[]`):                                          false,
		groupsWith("members", list(21, `{"user_id":"ann"}`)):                 false,
		groupsWith("members", `[{}]`):                                        false,
		groupsWith("members", `[{"user_id":""}]`):                            false,
		member(`"email":"` + long(257) + `"`):                                false,
		member(`"slack_user":{"team_id":"T01"}`):                             false,
		member(`"slack_user":{"team_id":"T01","user_id":"U01"}`):             true,
		member(`"slack_user":{"team_id":"acme","user_id":"U01"}`):            false,
		member(`"slack_user":{"team_id":"T01","user_id":"ann"}`):             false,
		groupsWith("steps", `[]`):                                            true,
		groupsWith("steps", list(6, `{"after":"0s","channels":["in_app"]}`)): false,
		step(`"after":"0s","channels":["in_app","web_push","email"]`):        true,
		step(`"after":"0s","channels":["slack"],"slack_channel":"C01"`):      true,
		step(`"after":"0s","channels":["slack"],"slack_channel":"#ops"`):     false,
		step(`"after":"0s","channels":["webhook"]`):                          false,
		step(`"after":"0s","channels":[]`):                                   false,
		step(`"channels":["in_app"]`):                                        false,
		step(`"after":"0s","channels":["in_app"],"users":["ann"]`):           true,
		step(`"after":"0s","channels":["in_app"],"users":[""]`):              false,
	}, func(body []byte) error {
		var groups struct{ Groups []approver.Group }
		if err := json.Unmarshal(body, &groups); err != nil {
			t.Fatal(err)
		}
		return approver.Check(groups.Groups)
	})
}
