package reconcile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Bounds of an invoice.
const (
	MaxLines    = 5000
	maxProvider = 64
	maxModel    = 256
	// maxCents is the largest amount that a line may bill, positive or negative.
	maxCents = "1000000000000"
)

// columns are the header of the CSV form.
var columns = []string{"provider", "model", "amount_cents"}

// ParseCSV reads lines from CSV as in RFC 4180, with a header. The error is an *apierr.Error that names the line.
func ParseCSV(text string) ([]Line, error) {
	reader := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	reader.FieldsPerRecord = len(columns)
	header, err := reader.Read()
	if err != nil || !slices.Equal(header, columns) {
		return nil, apierr.Invalid("csv", "must begin with the line "+strings.Join(columns, ","))
	}
	var lines []Line
	for {
		record, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, apierr.Invalid("csv", readable(err))
		case len(lines) == MaxLines:
			return nil, apierr.Invalid("csv", fmt.Sprintf("must hold at most %d lines", MaxLines))
		}
		at, _ := reader.FieldPos(0)
		line, err := NewLine(record[0], record[1], func() (amount.Amount, error) { return amount.ParseCents(record[2]) })
		if err != nil {
			return nil, apierr.Invalid("csv", fmt.Sprintf("line %d: %v", at, err))
		}
		lines = append(lines, line)
	}
}

// readable returns the CSV reader's error without the repeated position.
func readable(err error) string {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		what := parse.Err.Error()
		if errors.Is(parse.Err, csv.ErrFieldCount) {
			what = "must have the fields " + strings.Join(columns, ",")
		}
		return fmt.Sprintf("line %d: %s", parse.Line, what)
	}
	return "can't be read"
}

// NewLine checks the fields of a line and returns it. read returns the amount. An error names the field and the rule.
func NewLine(provider, model string, read func() (amount.Amount, error)) (Line, error) {
	switch {
	case provider == "" || len(provider) > maxProvider || !printable(provider):
		return Line{}, fmt.Errorf("provider: must be 1 to %d characters of text", maxProvider)
	case len(model) > maxModel || !printable(model):
		return Line{}, fmt.Errorf("model: must be at most %d characters of text", maxModel)
	case screen.LooksLikeKey(provider):
		return Line{}, errors.New("provider: seems to hold a raw key; send a name")
	case screen.LooksLikeKey(model):
		return Line{}, errors.New("model: seems to hold a raw key; send a name")
	}
	billed, err := read()
	if err != nil {
		return Line{}, fmt.Errorf("amount_cents: %w", err)
	}
	if most, _ := amount.ParseCents(maxCents); !billed.Within(most) {
		return Line{}, fmt.Errorf("amount_cents: must be between -%s and %s", maxCents, maxCents)
	}
	return Line{Provider: provider, Model: model, Amount: billed}, nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
