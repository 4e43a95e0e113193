package api

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	webhooksv1 "switchyard.dev/gen/go/switchyard/webhooks/v1"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/auth"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
)

// authOf converts and checks a requested authentication; nil is none requested.
func authOf(r *webhooksv1.EndpointAuth, now time.Time) (*endpoint.AuthRequest, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // No request is not an error.
	}
	var (
		request endpoint.AuthRequest
		err     error
		given   int
	)
	if r.GetNone() != nil {
		given++
		request.None = true
	}
	if bearer := r.GetBearer(); bearer != nil {
		given++
		request.Auth, err = auth.NewBearer(bearer.GetToken())
	}
	if basic := r.GetBasic(); basic != nil {
		given++
		request.Auth, err = auth.NewBasic(basic.GetUsername(), basic.GetPassword())
	}
	if header := r.GetHeader(); header != nil {
		given++
		request.Auth, err = auth.NewHeader(header.GetName(), header.GetValue())
	}
	if client := r.GetOauth2(); client != nil {
		given++
		request.Auth, err = auth.NewOAuth2(auth.Info{
			TokenURL: client.GetTokenUrl(), ClientID: client.GetClientId(), Scopes: client.GetScopes(),
			Audience: client.GetAudience(), Style: client.GetAuthStyle(),
		}, client.GetClientSecret())
	}
	if certificate := r.GetMtls(); certificate != nil {
		given++
		request.Auth, err = auth.NewMTLS(certificate.GetCertificate(), certificate.GetKey(), now)
	}
	if given != 1 {
		return nil, apierr.Invalid("auth", "must have exactly one of none, bearer, basic, header, oauth2 and mtls")
	}
	if err != nil {
		return nil, err
	}
	return &request, nil
}

func authInfoOf(i *auth.Info) *webhooksv1.EndpointAuthInfo {
	if i == nil {
		return nil
	}
	info := &webhooksv1.EndpointAuthInfo{
		Kind: string(i.Kind), HeaderName: textOrNull(i.HeaderName), TokenUrl: textOrNull(i.TokenURL), ClientId: textOrNull(i.ClientID),
		Scopes: i.Scopes, Audience: textOrNull(i.Audience), AuthStyle: textOrNull(i.Style),
	}
	if c := i.Certificate; c != nil {
		info.Certificate = &webhooksv1.CertificateInfo{
			Subject: c.Subject, FingerprintSha256: c.Fingerprint, NotAfter: timestamppb.New(c.NotAfter),
		}
	}
	return info
}
