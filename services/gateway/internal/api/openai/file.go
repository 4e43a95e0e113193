package openai

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/platform/apierr"
)

// The purposes of uploads; those of fine-tuning, assistants and evaluations have no use here.
var uploads = []file.Purpose{file.PurposeBatch, file.PurposeUserData, file.PurposeVision}

// Bounds of the life of a file that the caller sets, in seconds (OpenAI API reference, "Upload file").
const leastLife, mostLife = 3600, 2_592_000

// maxFileName bounds the name of a file, in bytes: lists show it.
const maxFileName = 512

// Upload is a file to be stored.
type Upload struct {
	file.File

	Content []byte
	// Extension is the JSON of what only this gateway supports; may be nil.
	Extension []byte
}

// ReadUpload reads a form with a file. now is when it is stored.
func ReadUpload(s dialect.Source, now time.Time) (*Upload, error) {
	f, err := dialect.ParseForm(s)
	if err != nil {
		return nil, err
	}
	purpose, err := f.Text("purpose")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(uploads, file.Purpose(purpose)) {
		return nil, apierr.Invalid("purpose", "must be batch, user_data or vision")
	}
	name, content, err := f.File("file")
	switch {
	case err != nil:
		return nil, err
	case len(name) > maxFileName || !utf8.ValidString(name):
		return nil, apierr.Invalid("file", fmt.Sprintf("must have a name of at most %d bytes of UTF-8", maxFileName))
	}
	extension, err := f.Text(dialect.Extension)
	if err != nil {
		return nil, err
	}
	u := &Upload{File: file.File{ID: file.NewID(), Name: name, Purpose: file.Purpose(purpose), CreatedAt: now}, Content: content}
	if extension != "" {
		u.Extension = []byte(extension)
	}
	u.ExpiresAt, err = formExpiry(f, now)
	return u, err
}

// formExpiry reads when a file expires; zero where the caller leaves it open.
func formExpiry(f *dialect.Form, now time.Time) (time.Time, error) {
	anchor, err := f.Text("expires_after[anchor]")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := f.Whole("expires_after[seconds]", mostLife, 0)
	switch {
	case err != nil, seconds == 0 && anchor == "":
		return time.Time{}, err
	case anchor != "created_at":
		return time.Time{}, apierr.Invalid("expires_after[anchor]", "must be created_at")
	case seconds < leastLife:
		return time.Time{}, errLife("expires_after[seconds]")
	}
	return now.Add(time.Duration(seconds) * time.Second), nil
}

func errLife(field string) error {
	return apierr.Invalid(field, fmt.Sprintf("must be a whole number from %d to %d", leastLife, mostLife))
}

// FileObject is a file as the API shows it.
type FileObject struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

// NewFile returns a file as the API shows it.
func NewFile(f file.File) FileObject {
	return FileObject{
		f.ID, "file", f.Size, f.CreatedAt.Unix(), f.ExpiresAt.Unix(), f.Name, string(f.Purpose), "processed",
	}
}

// FileDeletion is the answer to the deletion of a file.
type FileDeletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// List is a page of things.
type List[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// NewList returns a page of things with their ids.
func NewList[T any](things []T, more bool, id func(T) string) List[T] {
	l := List[T]{Object: "list", Data: things, HasMore: more}
	if len(things) == 0 {
		l.Data = []T{}
		return l
	}
	l.FirstID, l.LastID = new(id(things[0])), new(id(things[len(things)-1]))
	return l
}

// Bounds of pages. A client that asks for more gets the page that is possible, and goes on after it.
const (
	mostFiles   = 1000
	mostBatches = 100
	fewBatches  = 20
)

// ReadFilePage reads the query of a list of files.
func ReadFilePage(q url.Values) (file.Page, error) {
	limit, err := pageLimit(q, 10*mostFiles, mostFiles)
	if err != nil {
		return file.Page{}, err
	}
	p := file.Page{Purposes: file.Shown(), After: q.Get("after"), Limit: min(limit, mostFiles)}
	switch q.Get("order") {
	case "", "desc":
	case "asc":
		p.Ascending = true
	default:
		return p, apierr.Invalid("order", "must be asc or desc")
	}
	if purpose := file.Purpose(q.Get("purpose")); purpose != "" {
		if !slices.Contains(file.Shown(), purpose) {
			return p, apierr.Invalid("purpose", "must be one of "+strings.Join(names(file.Shown()), ", "))
		}
		p.Purposes = []file.Purpose{purpose}
	}
	return p, nil
}

func names(purposes []file.Purpose) []string {
	list := make([]string, len(purposes))
	for i, p := range purposes {
		list[i] = string(p)
	}
	return list
}

func pageLimit(q url.Values, most, absent int) (int, error) {
	n, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(absent)))
	if err != nil || n < 1 || n > most {
		return 0, apierr.Invalid("limit", fmt.Sprintf("must be a whole number from 1 to %d", most))
	}
	return n, nil
}
