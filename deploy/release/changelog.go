package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parts are the headings that a section may have, in their order.
var parts = []string{"gateway", "webhook-egress", "notify", "edge", "contracts", "platform", "deploy"}

// unreleased stands in place of the date of a section that is not released.
const unreleased = "unreleased"

// section is the part of the changelog that is about one release.
type section struct {
	version string
	date    string // as 2026-12-01, or unreleased
	text    string // without the heading
}

var title = regexp.MustCompile(`^## (v\S+), (\S+)$`)

// parse returns the sections of a changelog, the newest first. Their versions descend, and only the first may be
// unreleased.
func parse(text string) (sections []section, err error) {
	chunks := strings.Split("\n"+text, "\n## ")
	for _, chunk := range chunks[1:] {
		heading, body, _ := strings.Cut("## "+chunk, "\n")
		found := title.FindStringSubmatch(heading)
		if found == nil {
			return nil, fmt.Errorf("heading %q: want \"## v1.2.3, 2026-12-01\" or \"## v1.2.3, unreleased\"", heading)
		}
		s := section{version: found[1], date: found[2], text: strings.Trim(body, "\n") + "\n"}
		if err := s.check(sections); err != nil {
			return nil, fmt.Errorf("section %s: %w", s.version, err)
		}
		sections = append(sections, s)
	}
	if len(sections) == 0 {
		return nil, errors.New("no section of a release")
	}
	return sections, nil
}

// check returns what is wrong with a section that follows those before it.
func (s section) check(before []section) error {
	version, err := number(s.version)
	if err != nil {
		return err
	}
	if _, err := time.Parse(time.DateOnly, s.date); err != nil && (s.date != unreleased || len(before) > 0) {
		return fmt.Errorf("date %q: want a day such as 2026-12-01; only the first section may be unreleased", s.date)
	}
	if len(before) > 0 {
		newer, err := number(before[len(before)-1].version)
		if err != nil {
			return err
		}
		if slices.Compare(version[:], newer[:]) >= 0 {
			return fmt.Errorf("follows %s: want the newest release first", before[len(before)-1].version)
		}
	}
	last := -1
	for line := range strings.Lines(s.text) {
		name, isHeading := strings.CutPrefix(strings.TrimSpace(line), "### ")
		if !isHeading {
			continue
		}
		place := slices.Index(parts, name)
		if place <= last {
			return fmt.Errorf("part %q: want each once and in this order: %s", name, strings.Join(parts, ", "))
		}
		last = place
	}
	return nil
}

var release = regexp.MustCompile(`^v(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})$`)

// number returns the three numbers of a version.
func number(version string) (n [3]int, err error) {
	found := release.FindStringSubmatch(version)
	if found == nil {
		return n, fmt.Errorf("version %q: want three numbers, such as v1.2.3", version)
	}
	for i := range n {
		if n[i], err = strconv.Atoi(found[i+1]); err != nil {
			return n, err
		}
	}
	return n, nil
}

var relative = regexp.MustCompile(`\[([^\]]+)\]\([^):]+\)`)

// notesOf returns the text of a released version. Of links to files only the text remains, since they lead nowhere on
// the page of a release.
func notesOf(sections []section, version string) (string, error) {
	at := slices.IndexFunc(sections, func(s section) bool { return s.version == version })
	switch {
	case at < 0:
		return "", fmt.Errorf("no section %q", version)
	case sections[at].date == unreleased:
		return "", fmt.Errorf("section %q: it is unreleased; write the day in place of it, and commit, before the tag", version)
	}
	return relative.ReplaceAllString(sections[at].text, "$1"), nil
}
