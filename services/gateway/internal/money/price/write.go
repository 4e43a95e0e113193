package price

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Write writes rows as a price file that Parse reads: one block for successive rows of a provider, source and review. The
// rows have a day from which they are in force, as all rows of a file have.
func Write(w io.Writer, rows []Row) error {
	var text bytes.Buffer
	text.WriteString("providers:")
	if len(rows) == 0 {
		text.WriteString(" []")
	}
	text.WriteByte('\n')
	var before *Row
	for i := range rows {
		row := &rows[i]
		if before == nil || !row.sharesBlock(before) {
			row.writeHead(&text)
		}
		row.write(&text)
		before = row
	}
	_, err := w.Write(text.Bytes())
	return err
}

func (r *Row) sharesBlock(other *Row) bool {
	return r.Provider == other.Provider && r.Source == other.Source && r.Reviewed.Equal(other.Reviewed) && r.ReviewEvery == other.ReviewEvery
}

// writeHead writes what the rows of a block have in common.
func (r *Row) writeHead(text *bytes.Buffer) {
	fmt.Fprintf(text, "  - provider: %s\n", scalar(r.Provider))
	if r.Source != "" {
		fmt.Fprintf(text, "    source: %s\n", scalar(r.Source))
	}
	if !r.Reviewed.IsZero() {
		fmt.Fprintf(text, "    reviewed: %s\n", r.Reviewed.Format(time.DateOnly))
	}
	if days := int(r.ReviewEvery / (24 * time.Hour)); days > 0 && days != defaultReview {
		fmt.Fprintf(text, "    review_every_days: %d\n", days)
	}
	text.WriteString("    models:\n")
}

// write writes a row on one line, or with its tiers as a block.
func (r *Row) write(text *bytes.Buffer) {
	fields := []string{"model: " + scalar(r.Model), "effective_from: " + r.EffectiveFrom.Format(time.DateOnly)}
	if !r.EffectiveTo.IsZero() {
		fields = append(fields, "effective_to: "+r.EffectiveTo.Format(time.DateOnly))
	}
	fields = append(fields, r.Rates.fields()...)
	if len(r.Tiers) == 0 {
		fmt.Fprintf(text, "      - {%s}\n", strings.Join(fields, ", "))
		return
	}
	fmt.Fprintf(text, "      - %s\n        tiers:\n", strings.Join(fields, "\n        "))
	for i := range r.Tiers {
		tier := append([]string{"above_tokens: " + strconv.FormatInt(r.Tiers[i].AboveTokens, 10)}, r.Tiers[i].fields()...)
		fmt.Fprintf(text, "          - {%s}\n", strings.Join(tier, ", "))
	}
}

// fields returns the prices that are set, as in a price file.
func (r *Rates) fields() []string {
	var fields []string
	own := r.own()
	for _, b := range provider.Buckets() {
		if own[b] != nil {
			fields = append(fields, b.Tariff()+`: "`+Text(b, *own[b])+`"`)
		}
	}
	if r.BatchPercent != nil {
		fields = append(fields, "batch_percent: "+strconv.Itoa(*r.BatchPercent))
	}
	return fields
}

// Text returns a rate of a bucket as a price file has it, such as "0.25": in USD per million tokens or characters, or for
// one piece.
func Text(b provider.Bucket, rate Rate) string {
	decimals := rateDecimals
	if b == provider.BucketImages || b == provider.BucketAudioSeconds || b == provider.BucketSearches {
		decimals = eachDecimals
	}
	digits := fmt.Sprintf("%0*d", decimals+1, int64(rate))
	whole, fraction := digits[:len(digits)-decimals], strings.TrimRight(digits[len(digits)-decimals:], "0")
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// plain matches names that YAML reads as texts without quotes.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/@-]*[A-Za-z0-9]$`)

// scalar returns a text as a YAML scalar.
func scalar(text string) string {
	switch strings.ToLower(text) {
	case "null", "true", "false", "yes", "no", "on", "off":
	default:
		if plain.MatchString(text) {
			return text
		}
	}
	return strconv.QuoteToASCII(text)
}
