package api

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"switchyard.dev/services/gateway/internal/serving/inference"
)

func TestVectorsAreExact(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	vector := []float32{0, 1, -1, 0.1, 1e-7, -1e-6, 1e21, 123456.79, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Copysign(0, -1))}
	for range 5000 {
		vector = append(vector, math.Float32frombits(source.Uint32()&^0x40000000), source.Float32()*2-1, float32(source.NormFloat64()/40))
	}
	for exponent := -30; exponent < 3; exponent++ { // Both sides of every power of two.
		edge := float32(math.Ldexp(1, exponent))
		vector = append(vector, edge, math.Nextafter32(edge, 0), math.Nextafter32(edge, 2), -edge)
	}
	var read []float32
	if err := json.Unmarshal(appendVector(nil, vector), &read); err != nil {
		t.Fatal(err)
	}
	for i := range vector {
		if math.Float32bits(vector[i]) != math.Float32bits(read[i]) {
			t.Errorf("%v became %v", vector[i], read[i])
		}
	}
	if got := string(appendVector(nil, []float32{0.5, -0.25, 0, 1, 0.001953125})); got != "[0.5,-0.25,0,1,0.001953125]" {
		t.Errorf("plain numbers: %s", got)
	}
	if got := string(appendVector(nil, nil)); got != "[]" {
		t.Errorf("no numbers: %s", got)
	}
}

func TestIsOpenAIEmbeddings(t *testing.T) {
	for body, want := range map[string]bool{
		`{"model":"m","input":"x"}`:                                          false,
		`{"model":"m","input":"x","dimensions":2}`:                           false,
		`{"model":"m","input":"x","encoding_format":"float"}`:                true,
		`{"model":"m","input":[1,2],"user":"u"}`:                             true,
		`{"model":"m","input":"x","switchyard":{"goal":"cost"}}`:             true,
		`{"model":"m","input":"x","user":"u","optimization_goal":"cost"}`:    false,
		`{"organization_id":"acme","model":"m","input":"x","user":"u"}`:      false,
		`{"model":"m","input":"x","nonsense":1}`:                             false,
		`{"model":"m","input":"x","encoding_format":"float","nonsense":[1]}`: true,
		`{"metadata":{"user":"u"},"model":"m","input":"x"}`:                  false,
		``:          false,
		`{`:         false,
		`["user"]`:  false,
		`{"user":1`: true, // It is refused in either dialect.
	} {
		if got := isOpenAIEmbeddings([]byte(body)); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// FuzzAppendFloat checks that the output is a JSON number that parses as the same float32, also by way of a float64.
func FuzzAppendFloat(f *testing.F) {
	f.Add(uint32(0x3f000000))
	f.Add(uint32(0x3affffff))
	f.Fuzz(func(t *testing.T, bits uint32) {
		want := math.Float32frombits(bits)
		if want != want || math.IsInf(float64(want), 0) {
			t.Skip("the engine lets no such number through")
		}
		text := appendFloat(nil, want)
		var short float32
		var long float64
		if err := errors.Join(json.Unmarshal(text, &short), json.Unmarshal(text, &long)); err != nil || short != want || float32(long) != want {
			t.Errorf("%v became %s: %v, %v, %v", want, text, short, long, err)
		}
	})
}

// Ten vectors of the usual length, by hand and by encoding/json.
func BenchmarkEncodeEmbeddings(b *testing.B) {
	source := rand.New(rand.NewPCG(1, 2))
	e := &inference.Embedded{Vectors: make([][]float32, 10)}
	for i := range e.Vectors {
		for range 1536 {
			e.Vectors[i] = append(e.Vectors[i], float32(source.NormFloat64()/40))
		}
	}
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encodeEmbeddings(e, "req", appendVector); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(e.Vectors); err != nil {
				b.Fatal(err)
			}
		}
	})
}
