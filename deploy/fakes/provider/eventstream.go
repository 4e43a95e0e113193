package provider

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
)

// eventStream is the media type of AWS's event streams (smithy.io, "Amazon Event Stream specification").
const eventStream = "application/vnd.amazon.eventstream"

// frame returns a message of an event stream: lengths and their checksum, headers as pairs of name and text, the payload,
// and the checksum of all.
func frame(payload string, headers ...string) string {
	var head []byte
	for header := range slices.Chunk(headers, 2) {
		name, value := header[0], header[1]
		head = append(append(append(head, byte(len(name))), name...), typeString)
		head = append(binary.BigEndian.AppendUint16(head, uint16(len(value))), value...)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(frameSize+len(head)+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	out = append(append(out, head...), payload...)
	return string(binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out)))
}

const (
	// frameSize is the size of a message without headers and payload.
	frameSize = 16
	// typeString is the type of a header that is a text.
	typeString = 7
)

// eventFrame returns an event.
func eventFrame(name, data string) string {
	return frame(data, ":event-type", name, ":content-type", "application/json", ":message-type", "event")
}

// chunkFrame returns an event of another vendor's stream within one of InvokeModelWithResponseStream.
func chunkFrame(_, data string) string {
	return eventFrame("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(data))+`","p":"`+padding(data)+`"}`)
}

// padding returns letters that hide the length of a text.
func padding(text string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return letters[:len(text)%len(letters)]
}

// exceptionFrame returns the exception by which a stream ends. An empty text is replaced by the usual one.
func exceptionFrame(status int, data string) string {
	kind := errorTextOf(bedrockErrors, status, "").kind
	return frame(data, ":exception-type", strings.ToLower(kind[:1])+kind[1:], ":content-type", "application/json", ":message-type", "exception")
}

type bedrockError struct {
	Message string `json:"message"`
}

var bedrockErrors = map[int]errorText{
	http.StatusUnauthorized:        {"UnrecognizedClientException", "The security token included in the request is invalid."},
	http.StatusForbidden:           {"AccessDeniedException", "You don't have access to the model with the specified model ID."},
	http.StatusNotFound:            {"ResourceNotFoundException", "Could not resolve the foundation model from the provided model identifier."},
	http.StatusRequestTimeout:      {"ModelTimeoutException", "Model has timed out in processing the request. Try your request again."},
	http.StatusFailedDependency:    {"ModelErrorException", "The model returned an error."},
	http.StatusTooManyRequests:     {"ThrottlingException", "Too many requests, please wait before trying again."},
	http.StatusInternalServerError: {"InternalServerException", "The system encountered an unexpected error during processing. Try your request again."},
	http.StatusServiceUnavailable:  {"ServiceUnavailableException", "Bedrock is unable to process your request."},
	0:                              {"ValidationException", "The provided request is not valid"},
}

// exceptionNamer names the exception of an error in its header, as the vendor does, for scripted errors too.
type exceptionNamer struct {
	http.ResponseWriter
}

const errorType = "X-Amzn-Errortype"

func (n *exceptionNamer) WriteHeader(status int) {
	if header := n.Header(); status >= http.StatusBadRequest && header.Get(errorType) == "" {
		header.Set(errorType, errorTextOf(bedrockErrors, status, "").kind+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	}
	n.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the connection.
func (n *exceptionNamer) Unwrap() http.ResponseWriter { return n.ResponseWriter }
