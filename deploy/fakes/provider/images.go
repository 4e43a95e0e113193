package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strconv"
	"strings"
)

const (
	maxImages = 10
	// outputImageTokens is the token count of one generated picture, as for a medium square of
	// gpt-image-1.
	outputImageTokens = 1056
)

type imageRequest struct {
	Model          string `json:"model"`
	Prompt         string `json:"prompt"`
	N              int    `json:"n"`
	Size           string `json:"size"`
	ResponseFormat string `json:"response_format"`
}

type imageList struct {
	Created      int64       `json:"created"`
	Background   string      `json:"background,omitempty"`
	Data         []imageData `json:"data"`
	OutputFormat string      `json:"output_format,omitempty"`
	Quality      string      `json:"quality,omitempty"`
	Size         string      `json:"size,omitempty"`
	Usage        *imageUsage `json:"usage,omitempty"`
}

type imageData struct {
	RevisedPrompt string `json:"revised_prompt,omitempty"`
	URL           string `json:"url,omitempty"`
	B64JSON       string `json:"b64_json,omitempty"`
}

type imageUsage struct {
	InputTokens        int                `json:"input_tokens"`
	InputTokensDetails imageTokensDetails `json:"input_tokens_details"`
	OutputTokens       int                `json:"output_tokens"`
	TotalTokens        int                `json:"total_tokens"`
}

type imageTokensDetails struct {
	ImageTokens int `json:"image_tokens"`
	TextTokens  int `json:"text_tokens"`
}

// generate answers POST /v1/images/generations: gpt-image models return base64 and count tokens; dall-e models return
// URLs on this server unless the request wants base64.
func generate(w http.ResponseWriter, r *http.Request, body []byte) {
	req := imageRequest{Model: "gpt-image-1", N: 1, Size: "1024x1024"}
	if err := json.Unmarshal(body, &req); err != nil || req.Prompt == "" {
		fail(w, r, http.StatusBadRequest, "Missing required parameter: 'prompt'.")
		return
	}
	if req.N < 1 || req.N > maxImages {
		fail(w, r, http.StatusBadRequest, "Invalid 'n': expected a value between 1 and 10.")
		return
	}
	list := imageList{Created: created}
	dalle := strings.HasPrefix(req.Model, "dall-e")
	if !dalle {
		in, out := Tokens(req.Prompt), req.N*outputImageTokens
		list.Background, list.OutputFormat, list.Quality, list.Size = "opaque", "png", "medium", req.Size
		list.Usage = &imageUsage{
			InputTokens: in, InputTokensDetails: imageTokensDetails{TextTokens: in}, OutputTokens: out, TotalTokens: in + out,
		}
	}
	for i := range req.N {
		list.Data = append(list.Data, picture(r, req, i, dalle))
	}
	writeJSON(w, http.StatusOK, list)
}

func picture(r *http.Request, req imageRequest, index int, dalle bool) imageData {
	sum := sha256.Sum256([]byte(req.Prompt + "\x00" + strconv.Itoa(index)))
	var data imageData
	if req.Model == "dall-e-3" {
		data.RevisedPrompt = req.Prompt
	}
	if dalle && req.ResponseFormat != "b64_json" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		data.URL = scheme + "://" + r.Host + "/images/" + hex.EncodeToString(sum[:3]) + ".png"
		return data
	}
	data.B64JSON = base64.StdEncoding.EncodeToString(drawPNG([3]byte(sum[:3])))
	return data
}

// servePNG answers GET /images/{rrggbb}.png.
func servePNG(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutSuffix(r.PathValue("name"), ".png")
	rgb, err := hex.DecodeString(name)
	if !found || err != nil || len(rgb) != 3 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write(drawPNG([3]byte(rgb)))
}

// drawPNG returns a small square of one colour. It ignores the requested size: no test looks at pixels, and a real
// picture would make every answer a megabyte.
func drawPNG(rgb [3]byte) []byte {
	square := image.NewPaletted(image.Rect(0, 0, 16, 16), color.Palette{color.RGBA{rgb[0], rgb[1], rgb[2], 255}})
	var buf bytes.Buffer
	if err := png.Encode(&buf, square); err != nil {
		return nil
	}
	return buf.Bytes()
}
