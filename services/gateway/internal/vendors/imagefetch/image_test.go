package imagefetch

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestType(t *testing.T) {
	for _, want := range []struct {
		data []byte
		kind string
	}{
		{jpeg, "image/jpeg"},
		{png, "image/png"},
		{gif, "image/gif"},
		{[]byte("GIF87a"), "image/gif"},
		{webp, "image/webp"},
		{nil, ""},
		{[]byte("GIF88a"), ""},
		{[]byte("RIFF\x10\x00\x00\x00WAVEfmt "), ""},
		{[]byte("RIFF"), ""},
		{[]byte("BM"), ""},
		{[]byte("<svg"), ""},
		{[]byte("\x89PNG\n\x1a\n"), ""},
	} {
		if got := Type(want.data); got != want.kind {
			t.Errorf("%q: %q, want %q", want.data, got, want.kind)
		}
		if got := TypeOfBase64(base64.StdEncoding.EncodeToString(want.data)); got != want.kind {
			t.Errorf("%q in base64: %q, want %q", want.data, got, want.kind)
		}
	}
}

func TestCheckDataURI(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	large := append([]byte(nil), png...)
	large = append(large, make([]byte, MaxBytes-len(png))...)
	for _, c := range []struct {
		name, uri, text string // no text: accepted
	}{
		{"jpeg", DataURI("image/jpeg", encode(jpeg)), ""},
		{"png", DataURI("image/png", encode(png)), ""},
		{"type in capitals", DataURI("IMAGE/PNG", encode(png)), ""},
		{"just small enough", DataURI("image/png", encode(large)), ""},
		{"another type", DataURI("image/jpeg", encode(png)), ""},
		{"another name of the type", DataURI("image/jpg", encode(jpeg)), ""},
		{"no type", DataURI("", encode(png)), ""},
		{"no image", DataURI("image/png", encode([]byte("hello"))), "not a JPEG, PNG, GIF or WebP"},
		{"empty", DataURI("image/png", ""), "not a JPEG, PNG, GIF or WebP"},
		{"no base64", DataURI("image/png", "***"), "must be base64"},
		{"cut off", DataURI("image/png", encode(png)[:21]), "must be base64"},
		{"without padding", DataURI("image/png", strings.TrimRight(encode(png[:10]), "=")), "must be base64"},
		{"for URLs", DataURI("image/png", base64.URLEncoding.EncodeToString(append(png, 0xfb, 0xff))), "must be base64"},
		{"bad at its end", DataURI("image/png", encode(png)+"!"), "must be base64"},
		{"lines", DataURI("image/png", encode(png)[:8]+"\r\n"+encode(png)[8:]), "line breaks"},
		{"one URI in another", DataURI("image/png", DataURI("image/png", encode(png))), "must be base64"},
		{"percent-encoded", "data:image/png,%89PNG", "data: URI in base64"},
		{"no comma", "data:image/png;base64", "data: URI in base64"},
		{"no data", "https://images.example/a.png,", "data: URI in base64"},
		{"too large", DataURI("image/png", encode(append(large, 0))), "larger than 20971520 bytes"},
		{"far too large", DataURI("image/png", strings.Repeat("A", 2*MaxBytes)), "larger than 20971520 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checked, size, err := CheckDataURI(c.uri)
			if c.text == "" {
				_, text, _ := strings.Cut(c.uri, ",")
				if want := DataURI(TypeOfBase64(text), text); err != nil || size == 0 || checked != want {
					t.Errorf("%.40q, %d bytes, %v, want %.40q", checked, size, err, want)
				}
				return
			}
			refusedWith(t, err, ReasonImageInvalid, c.text)
			if len(err.Error()) > 200 {
				t.Error("the error repeats the image")
			}
		})
	}
}

// FuzzCheckDataURI checks that an accepted URI is an image in base64 that decodes to the returned size.
func FuzzCheckDataURI(f *testing.F) {
	f.Add("data:image/png;base64,iVBORw0KGgo=")
	f.Add("data:image/gif;base64,R0lGODlh")
	f.Add("data:;base64,,")
	f.Fuzz(func(t *testing.T, uri string) {
		checked, size, err := CheckDataURI(uri)
		if err != nil {
			return
		}
		head, text, _ := strings.Cut(checked, ",")
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(data) != size {
			t.Fatalf("%q passed as %d bytes, but has %d, %v", uri, size, len(data), err)
		}
		if kind := Type(data); kind == "" || head != "data:"+kind+";base64" {
			t.Errorf("%q passed as %q", uri, kind)
		}
	})
}
