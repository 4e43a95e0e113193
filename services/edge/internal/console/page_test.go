package console_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"switchyard.dev/services/edge/internal/console"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Scripts name texts that exist, hold nothing that turns text into markup or code, and load files that are served.
func TestPages(t *testing.T) {
	pages, err := console.Pages()
	if err != nil {
		t.Fatal(err)
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(read(t, "../portal/page/text/en.json")), &texts); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("page/*.js")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	named := regexp.MustCompile(`\bt\("([^"]+)"|\{ name: "([^"]+)"`)
	loaded := regexp.MustCompile(`from "\./([^"]+)"`)
	active := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.style\b`)
	for _, script := range scripts {
		text := read(t, script)
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			if key := found[1] + found[2]; texts[key] == "" {
				t.Errorf("%s: there is no text %s", script, key)
			}
		}
		for _, found := range loaded.FindAllStringSubmatch(text, -1) {
			if pages[console.Prefix+found[1]] == nil {
				t.Errorf("%s loads %s, which is not served", script, found[1])
			}
		}
		if found := active.FindString(text); found != "" {
			t.Errorf("%s holds %q", script, found)
		}
	}
	inline := regexp.MustCompile(`<script>|<style|\sstyle=|\son\w+=|javascript:`)
	if found := inline.FindString(read(t, "page/index.html")); found != "" {
		t.Errorf("index.html holds %q", found)
	}
}
