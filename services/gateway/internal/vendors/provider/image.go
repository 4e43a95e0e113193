package provider

// ImageRequest asks for images.
type ImageRequest struct {
	// Model by the vendor's own name.
	Model string
	// Prompt describes the image.
	Prompt string
	// Count of images, at least 1.
	Count int
	// Size is "auto", "{width}x{height}" or empty for the vendor's default; the
	// other settings are empty for the vendor's default too.
	Size, Quality string
	// Format of the bytes: "png", "jpeg" or "webp".
	Format string
	// Delivery is "url" or "b64_json".
	Delivery string
}

// Images are the answer to an ImageRequest.
type Images struct {
	Images []Image
	// Usage counts Images at least; tokens where the vendor reports them.
	Usage *Usage
	// Model as the vendor names what it ran; may be empty.
	Model string
}

// Image is one image: a URL where the vendor keeps it, or its bytes.
type Image struct {
	URL string
	// Base64 of the bytes, and their media type.
	Base64, MediaType string
	// RevisedPrompt as the vendor rewrote it; may be empty.
	RevisedPrompt string
}
