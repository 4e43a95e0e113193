package provider

// ImageRequest is a request for generated images.
type ImageRequest struct {
	// Model is the vendor's own name of the model.
	Model string
	// Prompt describes the image.
	Prompt string
	// Count is the number of images, at least 1.
	Count int
	// Size is "auto", "{width}x{height}" or empty for the vendor's default. The other settings may be empty for the
	// vendor's default, too.
	Size, Quality string
	// Format is the format of the bytes: "png", "jpeg" or "webp".
	Format string
	// Delivery is "url" or "b64_json".
	Delivery string
}

// Images are the answer to an ImageRequest.
type Images struct {
	Images []Image
	// Usage counts at least the images, and tokens if the vendor reports them.
	Usage *Usage
	// Model is the vendor's name of the model that it ran; may be empty.
	Model string
}

// Image is one image: a URL at which the vendor stores it, or its bytes.
type Image struct {
	URL string
	// Base64 holds the bytes, and MediaType their type.
	Base64, MediaType string
	// RevisedPrompt is the prompt as the vendor rewrote it; may be empty.
	RevisedPrompt string
}
