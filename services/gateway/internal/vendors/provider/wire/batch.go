package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// Bounds of batch jobs.
const (
	// maxRequests is the largest size of a job's requests, in bytes.
	maxRequests = 64 << 20
	// maxPages bounds a search in the list of a vendor's jobs; a page has up to BatchPage jobs.
	maxPages = 100
	// BatchPage is the number of jobs of a page of a list.
	BatchPage = 100
	// clockSkew is how far a vendor's clock may be behind.
	clockSkew = time.Minute
)

var (
	vendorID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
	customID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	mark     = regexp.MustCompile(`^[A-Za-z0-9]{1,40}$`)
)

// IsVendorID reports whether a vendor's id may become a part of a path.
func IsVendorID(id string) bool { return vendorID.MatchString(id) }

// NotVendorID returns the error of a call with an id that is not one of a vendor's.
func NotVendorID() *provider.Error {
	return &provider.Error{Class: apierr.ClassPolicy, Text: "the id of the batch job or its file is not valid"}
}

// BatchID returns an id from a vendor's document; ok is false if it may not become a part of a path. An absent id is empty.
func BatchID(value gjson.Result) (id string, ok bool) {
	id = Text(value)
	return id, id == "" || IsVendorID(id)
}

// EncodeBatch returns the requests of a job in one text, which begins with out. Each body gets the job's model and the fixed
// members. write appends one request, whose custom id and body need no escapes: the body is a JSON object on a single line.
func EncodeBatch(job *provider.BatchJob, out []byte, fixed []Member, write func(out []byte, line provider.BatchLine) []byte) ([]byte, error) {
	if !mark.MatchString(job.Mark) {
		return nil, invalidJob("its mark is not of 1 to 40 letters and digits")
	}
	model, err := json.Marshal(job.Model)
	if err != nil {
		return nil, Unencodable(err)
	}
	fixed = append([]Member{{"model", string(model)}}, fixed...)
	count := 0
	for line, err := range job.Lines {
		if err != nil {
			return nil, err
		}
		count++
		switch {
		case count > job.Count:
			return nil, invalidJob(fmt.Sprintf("it has more than %d requests", job.Count))
		case !customID.MatchString(line.CustomID) || !strings.HasPrefix(line.CustomID, job.Mark):
			return nil, invalidJob(fmt.Sprintf("the custom id of request %d is not valid", count))
		case len(out)+len(line.Body) > maxRequests:
			return nil, invalidJob(fmt.Sprintf("its requests are larger than %d MiB", maxRequests>>20))
		case !jsoncheck.Valid(line.Body) || !ParseView(line.Body).IsObject():
			return nil, invalidJob(fmt.Sprintf("request %d is not a JSON object", count))
		}
		line.Body = onOneLine(Override(line.Body, fixed...))
		out = write(out, line)
	}
	if count == 0 || count < job.Count {
		return nil, invalidJob(fmt.Sprintf("it has %d requests of %d", count, job.Count))
	}
	return out, nil
}

func invalidJob(why string) *provider.Error {
	return &provider.Error{Class: apierr.ClassPolicy, Text: "the batch job is not valid: " + why}
}

// onOneLine returns valid JSON without line breaks. Those inside of strings are escapes, so that every break is space.
func onOneLine(text json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(text, "\r\n") {
		return text
	}
	out := make(json.RawMessage, 0, len(text))
	for _, c := range text {
		if c != '\r' && c != '\n' {
			out = append(out, c)
		}
	}
	return out
}

// ReadReport reads a document about a job from a 2xx response, and closes it.
type ReadReport func(ctx context.Context, response *http.Response) (*provider.BatchReport, error)

// MakeBatch sends the request that makes a job. Where the vendor may have made it all the same, the error is
// provider.ErrBatchUndecided, too.
func (c *Caller) MakeBatch(ctx context.Context, at *url.URL, header http.Header, body any, read ReadReport) (*provider.BatchReport, error) {
	receipt := provider.ReceiptOf(ctx).Part()
	response, err := c.Post(provider.WithReceipt(ctx, receipt), at, header, body) //nolint:bodyclose // read closes it.
	var report *provider.BatchReport
	if err == nil {
		report, err = read(ctx, response)
	}
	if err != nil && receipt.Sent() && !refused(err) {
		return nil, fmt.Errorf("%w: %w", provider.ErrBatchUndecided, err)
	}
	return report, err
}

// refused reports whether an error is a vendor's refusal of a request. A timeout is not: the vendor may be at it.
func refused(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && e.Status/100 == 4 && e.Status != http.StatusRequestTimeout
}

// ReadBatch requests a document about a job. The error is provider.ErrNoBatch where the vendor no longer has the job.
func (c *Caller) ReadBatch(ctx context.Context, at *url.URL, header http.Header, read ReadReport) (*provider.BatchReport, error) {
	response, err := c.Call(ctx, http.MethodGet, at, header) //nolint:bodyclose // read closes it.
	switch {
	case isGone(err):
		return nil, provider.ErrNoBatch
	case err != nil:
		return nil, err
	}
	return read(ctx, response)
}

// isGone reports whether the vendor itself says that it has no such thing. A page of an intermediary with the same status
// doesn't.
func isGone(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && e.Status == http.StatusNotFound && e.Code != ""
}

// CancelBatch sends the request that cancels a job. A vendor refuses it for a job that has ended, or is being cancelled, which
// is no error; state returns the job's present state.
func (c *Caller) CancelBatch(ctx context.Context, at *url.URL, header http.Header, state func() (*provider.BatchReport, error)) error {
	response, err := c.Call(ctx, http.MethodPost, at, header) //nolint:bodyclose // Finish closes it.
	if err == nil {
		_ = Finish(response.Body) // The status is the answer.
		return nil
	}
	if e, ok := errors.AsType[*provider.Error](err); !ok || !refused(err) || e.Class == apierr.ClassAuth || e.Class == apierr.ClassRateLimit {
		return err
	}
	report, failed := state()
	switch {
	case failed != nil:
		return failed
	case report.Status.Ended(), report.Status == provider.BatchCancelling:
		return nil
	}
	return err
}

// Results requests the results of a job, and passes each line, as read reads it, to each.
func (c *Caller) Results(
	ctx context.Context, at *url.URL, header http.Header, read func(line []byte) (provider.BatchResult, error), each func(provider.BatchResult) error,
) error {
	response, err := c.Call(ctx, http.MethodGet, at, header)
	if err != nil {
		return err
	}
	return ReadLines(ctx, response, ResultBounds, func(line []byte) error {
		result, err := read(line)
		if err != nil {
			return err
		}
		return each(result)
	})
}

// ParseResult parses a line of results. The view is valid as long as the line.
func ParseResult(line []byte) (view gjson.Result, custom string, err error) {
	if !jsoncheck.Valid(line) {
		return view, "", Malformed("a result is not valid JSON", nil)
	}
	view = ParseView(line)
	if !view.IsObject() {
		return view, "", Malformed("a result is not a JSON object", nil)
	}
	if custom = Text(view.Get("custom_id")); !customID.MatchString(custom) {
		return view, "", Malformed("a result has no valid custom id", nil)
	}
	return view, custom, nil
}

// BatchList is a vendor's list of jobs, the newest first.
type BatchList struct {
	// Page returns the page of jobs behind a job, or the first page for an empty id.
	Page func(after string) (gjson.Result, error)
	// Created returns when a job was made; the zero time where it doesn't say.
	Created func(job gjson.Result) time.Time
}

// Since visits the jobs that may have been made since a time, until visit is done or fails. Of those made earlier, no more
// than a page is read.
func (l BatchList) Since(since time.Time, visit func(job gjson.Result) (done bool, err error)) error {
	since = since.Add(-clockSkew)
	after := ""
	for range maxPages {
		page, err := l.Page(after)
		if err != nil {
			return err
		}
		jobs := page.Get("data")
		if !jobs.IsArray() {
			return Malformed("the answer holds no list of batch jobs", nil)
		}
		last, recent, done := "", false, false
		jobs.ForEach(func(_, job gjson.Result) bool {
			last = Text(job.Get("id"))
			if made := l.Created(job); !made.IsZero() && made.Before(since) {
				return true
			}
			recent = true
			done, err = visit(job)
			return !done && err == nil
		})
		switch {
		case done || err != nil:
			return err
		case !recent || page.Get("has_more").Type != gjson.True:
			return nil
		case !IsVendorID(last) || last == after:
			return Malformed("the list of batch jobs can't be read on", nil)
		}
		after = last
	}
	return Malformed("the list of batch jobs has no end", nil)
}
