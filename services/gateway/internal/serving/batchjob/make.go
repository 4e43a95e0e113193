package batchjob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/serving/file"
	"switchyard.dev/services/gateway/internal/vendors/imagefetch"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Codes of the problems that are not a vendor's.
const (
	codeInput       = "input_file_not_found"
	codeRefused     = "request_refused"
	codeNoProvider  = "no_provider"
	codeUnavailable = "vendor_unavailable"
	codeLost        = "batch_lost"
)

// Bounds of one exchange with a vendor: askTime of a question, sendTime of a job, resultTime of its results.
const (
	askTime    = time.Minute
	sendTime   = 10 * time.Minute
	resultTime = time.Hour
)

// makingBytes bounds the requests that a replica gives to vendors at once, in bytes: a vendor takes a job's as one text.
const makingBytes = 40 << 20

// vendor is who runs a job, or is asked to.
type vendor struct {
	target     Target
	runner     provider.BatchRunner
	credential provider.Credential
}

// errNoVendor is the error of a target that the policy no longer has, or that has no credential now.
var errNoVendor = errors.New("the provider is not configured or has no credential")

// vendorOf returns the vendor of a job's present target.
func (m *Manager) vendorOf(ctx context.Context, j *Job, t Target) (*vendor, error) {
	fleet := m.Fleet()
	runner, ok := fleet.Providers[t.Provider].(provider.BatchRunner)
	if !ok {
		return nil, errNoVendor
	}
	scope := keyring.Scope{Organization: j.Organization, Byok: keyring.ModeRequire, Provider: t.Provider}
	if t.Source != keyring.SourceByok {
		scope.Byok = keyring.ModeFleet
	}
	credentials, err := fleet.Keys.Resolve(ctx, scope, t.Provider)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoVendor, err)
	}
	return &vendor{t, runner, credentials[0]}, nil
}

// make gives a job to the first vendor that takes it.
func (m *Manager) make(ctx context.Context, j *Job) error {
	var last error
	for {
		if j.Trying.IsZero() { // No vendor has it.
			if refused := m.Refusal(ctx, j.Organization, j.Run); refused != nil {
				return m.fail(ctx, j, codeRefused, apierr.From(refused).Text)
			}
			if j.CancelRequested {
				return m.finish(ctx, j, provider.BatchCancelled, nil)
			}
		}
		target, left := j.target()
		if !left {
			return m.madeByNone(ctx, j, last)
		}
		v, err := m.vendorOf(ctx, j, target)
		if err == nil {
			err = m.makeAt(ctx, j, v)
		}
		switch {
		case err == nil:
			return m.journal(ctx, j)
		case ctx.Err() != nil, errors.Is(err, errLost):
			return err
		case errors.Is(err, file.ErrNotFound):
			return m.fail(ctx, j, codeInput, "the input file was deleted or has expired")
		case errors.Is(err, errOwn) && m.Now().Sub(j.CreatedAt) < makeFor:
			return m.postpone(ctx, j, err)
		case errors.Is(err, errOwn):
			return m.fail(ctx, j, codeInput, "the input file can't be read")
		case !j.Trying.IsZero() && m.Now().Sub(j.Trying) > giveUpAfter:
			return m.fail(ctx, j, codeLost, "the vendor could not be asked for a week whether it has the batch")
		case !j.Trying.IsZero(): // The vendor may have made it.
			return m.postpone(ctx, j, err)
		}
		if !retryable(last) {
			last = err
		}
		j.Tried++
	}
}

// journalTime bounds the write of a job that was made, though the replica stops.
const journalTime = 5 * time.Second

// journal stores a job that a vendor has made, even if ctx ends: not every vendor can be asked for a job that runs.
func (m *Manager) journal(ctx context.Context, j *Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTime)
	defer cancel()
	return m.move(ctx, j, 0)
}

// retryable reports whether a vendor that has failed so may take a job later.
func retryable(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && e.Class.Retryable()
}

// errNotMade is the error of a creation whose end was not known, and after which the vendor turned out to have no job.
var errNotMade = errors.New("the vendor has not made the batch")

// errOwn is the error of a creation that the gateway's own store has made fail, not the vendor.
var errOwn = errors.New("the batch can't be read or stored")

// makeAt makes a job at a vendor. When it fails, Trying is set where the vendor may have made the job all the same. Where
// it was set before, and the vendor has no such job, the error is errNotMade.
func (m *Manager) makeAt(ctx context.Context, j *Job, v *vendor) error {
	if !j.Trying.IsZero() { // It may have been made before.
		switch err := m.find(ctx, j, v); {
		case !errors.Is(err, provider.ErrNoBatch):
			return err
		case m.Now().Sub(j.Trying) < unclearFor:
			return provider.ErrBatchUndecided
		}
		j.Trying = time.Time{}
		return errNotMade
	}
	input, err := m.Files.Get(ctx, j.Scope, j.Input)
	if err != nil {
		return errors.Join(errOwn, err)
	}
	size := min(input.Size, makingBytes)
	if err := m.making.Acquire(ctx, size); err != nil {
		return err
	}
	defer m.making.Release(size)
	j.Trying = m.Now()
	if err := m.save(ctx, j); err != nil {
		j.Trying = time.Time{}
		return errors.Join(errOwn, err)
	}
	bounded, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	var unread error
	report, err := v.runner.CreateBatch(bounded, v.credential, m.jobOf(ctx, j, v, &unread))
	switch {
	case err == nil:
		m.made(j, v, report)
	case unread != nil || !errors.Is(err, provider.ErrBatchUndecided):
		j.Trying = time.Time{}
	}
	if unread != nil {
		return errors.Join(errOwn, unread, err)
	}
	return err
}

// jobOf returns a job as its vendor gets it. An error of its file is kept in unread, so that it is not taken for the
// vendor's.
func (m *Manager) jobOf(ctx context.Context, j *Job, v *vendor, unread *error) *provider.BatchJob {
	return &provider.BatchJob{Mark: markOf(j), API: j.API, Model: v.target.Upstream, Count: j.Count, Lines: m.lines(ctx, j, unread)}
}

// find looks for a job that a vendor may have made.
func (m *Manager) find(ctx context.Context, j *Job, v *vendor) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var failed error
	report, err := v.runner.FindBatch(ctx, v.credential, provider.BatchSearch{
		Mark: markOf(j), Count: j.Count, Since: j.Trying,
		Other: func(id string) bool {
			has, err := m.Store.HasVendorBatch(ctx, v.target.Provider, id)
			failed = errors.Join(failed, err)
			return has
		},
	})
	if failed != nil {
		return failed
	}
	if err == nil {
		m.made(j, v, report)
	}
	return err
}

// made records that a vendor has made a job.
func (m *Manager) made(j *Job, v *vendor, report *provider.BatchReport) {
	j.Stage, j.Provider, j.VendorID = StageRunning, v.target.Provider, report.ID
	j.Report, j.Status, j.StartedAt, j.Failures = *report, provider.BatchInProgress, m.Now(), 0
	j.Fingerprint = v.credential.Fingerprint
}

// madeByNone ends a job that no vendor takes, or offers it again later where one may take it then.
func (m *Manager) madeByNone(ctx context.Context, j *Job, last error) error {
	vendorError, isVendors := errors.AsType[*provider.Error](last)
	if isVendors && !retryable(last) {
		return m.fail(ctx, j, codeRefused, vendorError.Text)
	}
	if m.Now().Sub(j.CreatedAt) < makeFor && last != nil {
		j.Tried = 0
		return m.postpone(ctx, j, last)
	}
	switch {
	case isVendors:
		return m.fail(ctx, j, codeUnavailable, "no vendor took the batch within an hour: "+vendorError.Text)
	case errors.Is(last, errNotMade):
		return m.fail(ctx, j, codeUnavailable, "no vendor took the batch within an hour")
	}
	return m.fail(ctx, j, codeNoProvider, "no provider of the model has a credential")
}

// markOf returns the name of a job at its vendor: letters and digits only.
func markOf(j *Job) string {
	mark := make([]byte, 0, len(j.Reservation)*2)
	for _, b := range j.Reservation {
		mark = append(mark, "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
	}
	return string(mark)
}

// customID returns the vendor's id of a request of a job.
func customID(mark string, number int) string { return fmt.Sprintf("%s-%d", mark, number) }

// maxLine bounds a request of a job, in bytes. A file of requests is checked before a job is made of it.
const maxLine = 32 << 20

// lines reads the requests of a job. Images get the type that their bytes show, as in live requests.
func (m *Manager) lines(ctx context.Context, j *Job, unread *error) iter.Seq2[provider.BatchLine, error] {
	return func(yield func(provider.BatchLine, error) bool) {
		mark, n := markOf(j), 0
		input, err := m.Files.Get(ctx, j.Scope, j.Input)
		if err != nil {
			*unread = err
			yield(provider.BatchLine{}, err)
			return
		}
		for line, err := range Lines(m.Files.Read(ctx, j.Scope, input)) {
			if err != nil {
				*unread = err
				yield(provider.BatchLine{}, err)
				return
			}
			body := imagefetch.Retype([]byte(gjson.GetBytes(line, "body").Raw))
			if !yield(provider.BatchLine{CustomID: customID(mark, n), Body: body}, nil) {
				return
			}
			n++
		}
	}
}

// Lines returns the lines of a file that are not empty, without their ends. A line is valid until the next one.
func Lines(pieces iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var rest []byte
		for piece, err := range pieces {
			if err != nil {
				yield(nil, err)
				return
			}
			for {
				head, tail, found := bytes.Cut(piece, []byte{'\n'})
				if !found {
					break
				}
				line := head
				if len(rest) > 0 {
					rest = append(rest, head...)
					line = rest
				}
				if line = bytes.TrimSpace(line); len(line) > 0 && !yield(line, nil) {
					return
				}
				rest, piece = rest[:0], tail
			}
			if rest = append(rest, piece...); len(rest) > maxLine {
				yield(nil, errLongLine)
				return
			}
		}
		if line := bytes.TrimSpace(rest); len(line) > 0 {
			yield(line, nil)
		}
	}
}

var errLongLine = errors.New("a line is longer than 32 MiB")
