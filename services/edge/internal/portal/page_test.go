package portal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/platform/houseevent"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func texts(t *testing.T, language string) map[string]string {
	t.Helper()
	var all map[string]string
	if err := json.Unmarshal([]byte(read(t, "page/text/"+language+".json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// Each language has the same texts with the same placeholders, and what the scripts name.
func TestTexts(t *testing.T) {
	english, german := texts(t, "en"), texts(t, "de")
	forms := func(all map[string]string) map[string]string {
		found := make(map[string]string)
		for key, text := range all {
			found[key] = strings.Join(placeholder.FindAllString(text, -1), " ")
		}
		return found
	}
	if diff := cmp.Diff(forms(english), forms(german)); diff != "" {
		t.Errorf("placeholders (-en +de):\n%s", diff)
	}
	scripts, err := filepath.Glob("page/*.js")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	named := regexp.MustCompile(`\bt\("([^"]+)"`)
	for _, script := range scripts {
		for _, found := range named.FindAllStringSubmatch(read(t, script), -1) {
			if english[found[1]] == "" {
				t.Errorf("%s: there is no text %s", script, found[1])
			}
		}
	}
}

// The page of alerts offers types of Switchyard's events that there are, with a text for each, and a threshold for those
// that have one.
func TestAlertTypes(t *testing.T) {
	script, english := read(t, "page/alerttype.js"), texts(t, "en")
	list := func(name string) (names []string) {
		_, rest, _ := strings.Cut(script, "export const "+name+" = [")
		inside, _, _ := strings.Cut(rest, "]")
		for _, found := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(inside, -1) {
			names = append(names, found[1])
		}
		return names
	}
	var percent []string
	for _, name := range list("types") {
		found, ok := houseevent.Find(name)
		if !ok || english["type-"+strings.TrimPrefix(name, houseevent.Prefix)] == "" {
			t.Errorf("%s is no type, or has no text", name)
		}
		if strings.Contains(string(found.Schema), `"percent"`) {
			percent = append(percent, name)
		}
	}
	if diff := cmp.Diff(percent, list("withPercent")); diff != "" || len(percent) == 0 {
		t.Errorf("types with a threshold (-want +got):\n%s", diff)
	}
	for _, channel := range []string{alert.InApp, alert.WebPush, alert.Email, alert.Webhook, alert.Slack} {
		if english["channel-"+channel] == "" || english["recipient-"+channel] == "" {
			t.Errorf("the channel %s has no text", channel)
		}
	}
}

// The form of a group of approvers has the bounds and the channels of groups, and offers no other ones.
func TestApproverForm(t *testing.T) {
	script, english := read(t, "page/approverform.js"), texts(t, "en")
	channels, err := json.Marshal(approver.Channels())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("const maxMembers = %d;", approver.MaxMembers), fmt.Sprintf("const maxSteps = %d;", approver.MaxSteps),
		"const channels = " + strings.ReplaceAll(string(channels), ",", ", ") + ";", fmt.Sprintf("maxlength: %d, value: member.user_id", alert.MaxUser),
	} {
		if !strings.Contains(script, want) {
			t.Errorf("approverform.js has no %s", want)
		}
	}
	// A pattern of HTML is anchored, and its classes need "-" escaped.
	pattern := strings.Trim(strings.ReplaceAll(approver.NamePattern, "_-", `_\\-`), "^$")
	if !strings.Contains(script, `const namePattern = "`+pattern+`";`) {
		t.Errorf("approverform.js has another pattern than %s", pattern)
	}
	for _, channel := range approver.Channels() {
		if english["channel-"+channel] == "" {
			t.Errorf("the channel %s has no text", channel)
		}
	}
}

// Nothing turns text into markup or code, and pages have no inline scripts, styles or handlers.
func TestPagesHoldTextOnly(t *testing.T) {
	active := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.style\b`)
	inline := regexp.MustCompile(`<script>|<style|\sstyle=|\son\w+=|javascript:`)
	for pattern, forbidden := range map[string]*regexp.Regexp{"page/*.js": active, "page/*.html": inline} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if found := forbidden.FindString(read(t, file)); found != "" {
				t.Errorf("%s holds %q", file, found)
			}
		}
	}
}
