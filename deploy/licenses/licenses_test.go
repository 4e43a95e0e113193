package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mit = `MIT License

Copyright (c) 2026 Example

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

const gpl = "SPDX-License-Identifier: GPL-3.0-only\n\n" + `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public
License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later
version.
`

// fake returns a module of the files, whose package in the folder pkg/inner is used.
func fake(t *testing.T, files map[string]string) *module {
	t.Helper()
	dir := t.TempDir()
	m := &module{path: "example.com/m", version: "v1.0.0", dir: dir, folders: map[string]bool{filepath.Join(dir, "pkg/inner"): true}}
	if err := os.MkdirAll(filepath.Join(dir, "pkg/inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.read(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCheck(t *testing.T) {
	before := maps.Clone(reviewed)
	clear(reviewed)
	t.Cleanup(func() { maps.Copy(reviewed, before) })
	for name, c := range map[string]struct {
		files map[string]string
		want  string // in the error; empty for none
	}{
		"a permissive licence":               {map[string]string{"LICENSE": mit}, ""},
		"in the British spelling":            {map[string]string{"Licence.md": mit}, ""},
		"none":                               {map[string]string{"README.md": mit}, "no file with a licence"},
		"code that is named so":              {map[string]string{"license.go": "package m"}, "no file with a licence"},
		"one that isn't allowed":             {map[string]string{"COPYING": gpl}, "is not among the licences that are allowed"},
		"one that isn't, beside one that is": {map[string]string{"LICENSE": mit, "LICENSE.GPL": gpl}, "LICENSE.GPL"},
		"of a folder above a used package":   {map[string]string{"LICENSE": mit, "pkg/COPYING": gpl}, "pkg/COPYING"},
		"of a used package":                  {map[string]string{"LICENSE": mit, "pkg/inner/LICENSE": gpl}, "pkg/inner/LICENSE"},
		"of a package that isn't used":       {map[string]string{"LICENSE": mit, "other/LICENSE": gpl}, ""},
		"other text":                         {map[string]string{"LICENSE": "All rights reserved."}, "0 % of the text"},
		"a licence within other text":        {map[string]string{"LICENSE": strings.Repeat("You must pay for each copy that you make. ", 60) + mit}, "want 60 %"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check([]*module{fake(t, c.files)})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A review is for one file of one module, and is refused when that isn't used.
func TestReviewed(t *testing.T) {
	before := maps.Clone(reviewed)
	clear(reviewed)
	t.Cleanup(func() { clear(reviewed); maps.Copy(reviewed, before) })
	reviewed["example.com/m/LICENSE.docs"] = "for the documentation"
	if err := check([]*module{fake(t, map[string]string{"LICENSE": mit, "LICENSE.docs": gpl})}); err != nil {
		t.Error(err)
	}
	if err := check([]*module{fake(t, map[string]string{"LICENSE": mit})}); err == nil || !strings.Contains(err.Error(), "used no more") {
		t.Errorf("%v, want the review that is used no more", err)
	}
}

func TestTexts(t *testing.T) {
	shipped, other := fake(t, map[string]string{"LICENSE": mit}), fake(t, map[string]string{"COPYING": gpl})
	shipped.programs, other.path = []string{"edge", "notify"}, "example.com/other"
	if got := texts([]*module{shipped, other}); !strings.Contains(got, "example.com/m v1.0.0: LICENSE") || !strings.Contains(got, "Permission is hereby granted") || strings.Contains(got, "other") {
		t.Errorf("texts:\n%s", got)
	}
	got, err := table([]*module{other, shipped})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got, "\n")
	if !strings.Contains(lines[0], "MIT") || !strings.HasSuffix(lines[0], "edge, notify") || !strings.Contains(lines[1], "not shipped") || lines[2] != "2 Go modules, of which 1 are in programs" {
		t.Errorf("table:\n%s", got)
	}
}

func TestNPM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "package-lock.json")
	lock := `{"packages": {"": {"name": "ours"}, "node_modules/a": {"license": "MIT"}, "node_modules/b": {}, "node_modules/c": {"license": "MIT"}}}`
	if err := os.WriteFile(path, []byte(lock), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := npm(path); err != nil || !strings.HasSuffix(got, "not shipped (tests): MIT 2, not stated 1\n") {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.WriteFile(path, []byte(`{"packages": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := npm(path); err == nil {
		t.Error("a lock of another form was read")
	}
}
