package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/services/platform/rpc"
)

// conditional sets the answer's ETag (RFC 9110, 8.8.3). On the JSON face the response is 304 if the caller has the
// answer already; over gRPC it is always whole.
func conditional(ctx context.Context, answer proto.Message) error {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(answer)
	if err != nil {
		return fmt.Errorf("entity tag: %w", err)
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	rpc.SetHeader(ctx, "ETag", tag)
	rpc.SetHeader(ctx, "Cache-Control", "no-cache") // It may be cached but must be revalidated.
	if has(ctx, tag) {
		rpc.SetStatus(ctx, http.StatusNotModified)
	}
	return nil
}

// has reports whether If-None-Match contains a tag. Weak tags compare like strong ones (RFC 9110, 13.1.2).
func has(ctx context.Context, tag string) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	var named []string
	for _, value := range md.Get("If-None-Match") {
		for part := range strings.SplitSeq(value, ",") {
			named = append(named, strings.TrimPrefix(strings.TrimSpace(part), "W/"))
		}
	}
	return slices.Contains(named, tag) || slices.Contains(named, "*")
}
