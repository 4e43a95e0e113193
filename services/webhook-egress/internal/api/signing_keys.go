package api

import (
	"context"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/rpc"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// keysFresh is how long a response with the signing keys may be cached.
const keysFresh = "public, max-age=300"

// signingKeys implements webhooksv1.SigningKeyServiceServer. keys may be nil.
type signingKeys struct {
	webhooksv1.UnimplementedSigningKeyServiceServer

	keys *signing.KeySet
}

// ListSigningKeys implements the method of that name.
func (s *signingKeys) ListSigningKeys(ctx context.Context, _ *webhooksv1.ListSigningKeysRequest) (*webhooksv1.ListSigningKeysResponse, error) {
	response := &webhooksv1.ListSigningKeysResponse{}
	for _, key := range s.keys.Keys(ctx) {
		response.Keys = append(response.Keys, &webhooksv1.SigningKey{
			Kty: "OKP", Crv: "Ed25519", X: key.X, Kid: key.ID, Alg: "EdDSA", Use: "sig", Whpk: key.Public,
		})
	}
	rpc.SetHeader(ctx, "Cache-Control", keysFresh)
	return response, nil
}
