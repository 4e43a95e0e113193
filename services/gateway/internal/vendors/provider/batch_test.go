package provider_test

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

func texts(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// echo returns, for each text, the vector that holds its number.
func echo(part []string) *provider.Vectors {
	made := &provider.Vectors{Model: "m", Usage: &provider.Usage{Input: int64(len(part))}}
	for _, text := range part {
		n, _ := strconv.Atoi(text)
		made.Vectors = append(made.Vectors, []float32{float32(n)})
	}
	return made
}

func TestEmbedBatches(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 100, 101} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int32
			made, err := provider.EmbedBatches(t.Context(), texts(n), 3, func(_ context.Context, part []string) (*provider.Vectors, error) {
				now := running.Add(1)
				defer running.Add(-1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				first, _ := strconv.Atoi(part[0])
				time.Sleep(time.Duration(1000-first) * time.Millisecond) // The last part arrives first.
				if len(part) > 3 {
					t.Errorf("%d texts at once", len(part))
				}
				return echo(part), nil
			})
			if err != nil || len(made.Vectors) != n {
				t.Fatalf("%d: %+v, %v, want as many vectors", n, made, err)
			}
			if made.Usage.Input != int64(n) || made.Model != "m" {
				t.Fatalf("%d: usage %+v of %q, want as many tokens of m", n, made.Usage, made.Model)
			}
			if parts := most.Load(); parts > 4 {
				t.Fatalf("%d: %d parts at a time, want at most 4", n, parts)
			}
			for i, vector := range made.Vectors {
				if vector[0] != float32(i) {
					t.Errorf("%d: vector %d is that of %v", n, i, vector)
				}
			}
		})
	}
}

func TestEmbedBatchesFailAsAWhole(t *testing.T) {
	broken := errors.New("broken")
	var calls atomic.Int32
	_, err := provider.EmbedBatches(t.Context(), texts(100), 1, func(ctx context.Context, part []string) (*provider.Vectors, error) {
		if calls.Add(1); part[0] == "2" {
			return nil, broken
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if !errors.Is(err, broken) || calls.Load() > 10 {
		t.Errorf("err = %v after %d calls, want the first failure and an end", err, calls.Load())
	}
}

// If the vendor reports no tokens for one part, the usage of all parts is unknown.
func TestEmbedBatchesWithoutUsage(t *testing.T) {
	for _, missing := range []*provider.Usage{nil, {}} {
		made, err := provider.EmbedBatches(t.Context(), texts(3), 1, func(_ context.Context, part []string) (*provider.Vectors, error) {
			vectors := echo(part)
			if part[0] == "1" {
				vectors.Usage = missing
			}
			return vectors, nil
		})
		if err != nil || made.Usage != nil {
			t.Errorf("%+v, %v, want no usage", made, err)
		}
	}
}

// Every bucket is added, including future ones.
func TestUsageAdd(t *testing.T) {
	var one, sum provider.Usage
	fields := reflect.ValueOf(&one).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetInt(int64(i + 1))
	}
	sum.Add(one)
	sum.Add(one)
	for i := range fields.NumField() {
		if got := reflect.ValueOf(sum).Field(i).Int(); got != 2*int64(i+1) {
			t.Errorf("%s = %d", fields.Type().Field(i).Name, got)
		}
	}
}

// A panic in one part fails the whole request.
func TestEmbedBatchesThatPanic(t *testing.T) {
	_, err := provider.EmbedBatches(t.Context(), texts(20), 3, func(_ context.Context, part []string) (*provider.Vectors, error) {
		if part[0] == "9" {
			panic("bug")
		}
		return echo(part), nil
	})
	if e, ok := errors.AsType[*panics.Error](err); !ok || len(e.Stack) == 0 {
		t.Errorf("%v, want the panic with its stack", err)
	}
}

// A failed request is billed for the parts that the vendor answered or was processing: by its report, or else by an
// estimate. Parts that it refused or broke off, or that were never sent, are not billed.
func TestEmbedBatchesThatFailInPart(t *testing.T) {
	refused := &provider.Error{Class: apierr.ClassPolicy, Status: 400, Text: "no"}
	for name, c := range map[string]struct {
		parts     string // one letter each
		usage     int64
		estimated bool
		partial   bool
	}{
		"all before it are answered": {"aaar", 3, false, true},
		"one without usage":          {"aunr", 2 + 1, true, true}, // Two bytes are at least one token.
		"one with zeros":             {"aznr", 1 + 2, true, true},
		"one is given up":            {"agr", 1 + 1, true, true},
		"one was not sent":           {"awr", 1, false, true},
		"nothing is answered":        {"r", 0, false, false},
		"none but unsent":            {"wr", 0, false, false},
		"two are refused":            {"arr", 1, false, true},
		"one breaks off":             {"ab", 1, false, true},
		"a panic":                    {"ap", 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole := new(provider.Receipt)
				ctx := provider.WithReceipt(t.Context(), whole)
				_, err := provider.EmbedBatches(ctx, append(texts(len(c.parts)), "x")[:max(2, len(c.parts))], 1, func(ctx context.Context, part []string) (*provider.Vectors, error) {
					at, isNumber := strconv.Atoi(part[0])
					if isNumber != nil || at >= len(c.parts) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					kind := c.parts[at]
					if kind != 'w' {
						provider.ReceiptOf(ctx).SetSent()
					}
					vectors := echo(part)
					switch kind {
					case 'u', 'n':
						vectors.Usage = nil
					case 'z':
						vectors.Usage = &provider.Usage{}
					case 'g', 'w':
						<-ctx.Done()
						return nil, ctx.Err()
					case 'r':
						time.Sleep(time.Second)
						return nil, refused
					case 'b':
						time.Sleep(time.Second)
						return nil, &provider.Error{Class: apierr.ClassTransient, Text: "reset"}
					case 'p':
						time.Sleep(time.Second)
						panic("bug")
					}
					return vectors, nil
				})
				e, ok := errors.AsType[*provider.PartialError](err)
				if err == nil || ok != c.partial {
					t.Fatalf("%v, a part is billed: %t", err, ok)
				}
				if ok && (e.Usage != provider.Usage{Input: c.usage} || e.Estimated != c.estimated) {
					t.Errorf("%+v, estimated %t", e.Usage, e.Estimated)
				}
				if was, ok := errors.AsType[*provider.Error](err); ok && was.Status != 0 && was != refused {
					t.Errorf("the failure became %v", was)
				}
			})
		})
	}
}

// An answered part of a request is billed by its report even if the caller disconnected.
func TestEmbedBatchesThatAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(provider.WithReceipt(t.Context(), new(provider.Receipt)), time.Second)
		defer cancel()
		_, err := provider.EmbedBatches(ctx, texts(20), 1, func(ctx context.Context, part []string) (*provider.Vectors, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			provider.ReceiptOf(ctx).SetSent()
			if len(part[0]) == 1 {
				return echo(part), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		e, ok := errors.AsType[*provider.PartialError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%+v, want a part of the answer and the deadline", err)
		}
		if e.Usage.Input != 10+4 || !e.Estimated { // Ten parts are as reported, four estimated.
			t.Errorf("%d tokens, estimated %t; want 14, estimated", e.Usage.Input, e.Estimated)
		}
	})
}

// Vectors that are missing, or not all of one length, are a failure of the vendor: in one batch, and over several.
func TestEmbedBatchesOfUnevenVectors(t *testing.T) {
	for name, c := range map[string]struct {
		lengths []int // of the vectors
		want    string
	}{
		"even":            {[]int{2, 2, 2, 2}, ""},
		"one missing":     {[]int{2, 0}, "lacks a vector"},
		"all missing":     {[]int{0, 0}, "lacks a vector"},
		"in one batch":    {[]int{2, 3}, "differ in length"},
		"in two batches":  {[]int{2, 2, 2, 3, 3, 3}, "differ in length"},
		"one in the last": {[]int{2, 2, 2, 3}, "differ in length"},
	} {
		made, err := provider.EmbedBatches(t.Context(), texts(len(c.lengths)), 3, func(_ context.Context, part []string) (*provider.Vectors, error) {
			made := &provider.Vectors{}
			for _, text := range part {
				n, _ := strconv.Atoi(text)
				made.Vectors = append(made.Vectors, make([]float32, c.lengths[n]))
			}
			return made, nil
		})
		if c.want == "" {
			if err != nil || len(made.Vectors) != len(c.lengths) {
				t.Errorf("%s: %v, %v", name, made, err)
			}
			continue
		}
		if failure, ok := errors.AsType[*provider.Error](err); !ok || failure.Class != apierr.ClassServerError || !strings.Contains(failure.Text, c.want) {
			t.Errorf("%s: %v, want a failure that says %q", name, err, c.want)
		}
	}
}
