package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strconv"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Bounds of a form: its parts, and the bytes of a field that is no file.
const (
	maxParts = 256
	maxField = 256 << 10
)

// Form is a body of several parts (RFC 7578): fields, and files.
type Form struct{ parts []provider.FormPart }

// ParseForm parses a form. Its errors name the part.
func ParseForm(s Source) (*Form, error) {
	kind, parameters, err := mime.ParseMediaType(s.ContentType)
	if err != nil || kind != "multipart/form-data" {
		return nil, apierr.Invalid("Content-Type", "must be multipart/form-data")
	}
	reader := multipart.NewReader(bytes.NewReader(s.Body), parameters["boundary"])
	f := &Form{}
	for {
		part, err := reader.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil:
			return nil, apierr.Invalid("body", "is not a form of several parts").Wrap(err)
		case len(f.parts) == maxParts:
			return nil, apierr.Invalid("body", fmt.Sprintf("holds more than %d parts", maxParts))
		}
		if err := f.add(part); err != nil {
			return nil, err
		}
	}
}

func (f *Form) add(part *multipart.Part) error {
	data, err := io.ReadAll(part)
	if err != nil {
		return apierr.Invalid("body", "is not a form of several parts").Wrap(err)
	}
	p := provider.FormPart{Name: part.FormName(), FileName: part.FileName(), Data: data}
	switch {
	case p.Name == "":
		return apierr.Invalid("body", "holds a part without a name")
	case p.FileName != "":
		p.ContentType = part.Header.Get("Content-Type")
	case len(data) > maxField || !utf8.Valid(data):
		return apierr.Invalid(screen.Path(p.Name, "."), fmt.Sprintf("must be text of at most %d bytes", maxField))
	case screen.HasKeyForm(p.Name) || !slices.Contains(contentNames, p.Name) && screen.HasKeyForm(string(data)):
		return refuseKey(p.Name)
	}
	f.parts = append(f.parts, p)
	return nil
}

// Text returns a field; empty where there is none. A field that is there twice is refused: servers differ in which one
// counts.
func (f *Form) Text(name string) (text string, err error) {
	found := false
	for i := range f.parts {
		p := &f.parts[i]
		switch {
		case p.Name != name:
			continue
		case found:
			return "", apierr.Invalid(name, "must be given once")
		case p.FileName != "":
			return "", apierr.Invalid(name, "must be a field and not a file")
		}
		text, found = string(p.Data), true
	}
	return text, nil
}

// Whole returns a field that is a whole number from 1 to most; absent where there is none.
func (f *Form) Whole(name string, most, absent int64) (int64, error) {
	text, err := f.Text(name)
	if err != nil || text == "" {
		return absent, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, apierr.Invalid(name, fmt.Sprintf("must be a whole number from 1 to %d", most))
	}
	return n, nil
}

// Files returns the files of some names, each of them not empty.
func (f *Form) Files(names ...string) ([][]byte, error) {
	var files [][]byte
	for i := range f.parts {
		p := &f.parts[i]
		switch {
		case !slices.Contains(names, p.Name):
			continue
		case p.FileName == "":
			return nil, apierr.Invalid(p.Name, "must be a file")
		case len(p.Data) == 0:
			return nil, apierr.Invalid(p.Name, "must not be empty")
		}
		files = append(files, p.Data)
	}
	return files, nil
}

// File returns the one file of a name, which is not empty, with the name that it has at its caller.
func (f *Form) File(name string) (fileName string, content []byte, err error) {
	found, err := f.Files(name)
	if err != nil {
		return "", nil, err
	}
	if len(found) != 1 {
		return "", nil, apierr.Invalid(name, "exactly one is required")
	}
	at := slices.IndexFunc(f.parts, func(p provider.FormPart) bool { return p.Name == name })
	return f.parts[at].FileName, found[0], nil
}

// without returns the parts but those of a name.
func (f *Form) without(name string) []provider.FormPart {
	return slices.DeleteFunc(f.parts, func(p provider.FormPart) bool { return p.Name == name })
}
