package api

import (
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
)

func toToolOffer(m *gatewayv1.ToolCredential) *toolserver.Offer {
	if m == nil {
		return nil
	}
	return &toolserver.Offer{
		Reference: m.GetSecretRef(), KeyID: m.GetSealed().GetKeyId(), Ciphertext: m.GetSealed().GetCiphertext(),
		Header: m.GetHeader(), Scheme: m.Scheme, OAuth: toToolClient(m.GetOauth()),
	}
}

func toToolClient(m *gatewayv1.ToolOAuth) *toolserver.OAuth {
	if m == nil {
		return nil
	}
	return &toolserver.OAuth{
		ClientID: m.GetClientId(), Authentication: toolserver.Authentication(m.GetAuthentication()), KeyID: m.GetKeyId(), Scopes: m.GetScopes(),
		Issuer: m.GetIssuer(), TokenEndpoint: m.GetTokenEndpoint(), Resource: m.GetResource(),
	}
}

func fromToolClient(c *toolserver.OAuth) *gatewayv1.ToolOAuth {
	if c == nil {
		return nil
	}
	return &gatewayv1.ToolOAuth{
		ClientId: c.ClientID, Authentication: string(c.Authentication), KeyId: c.KeyID, Scopes: c.Scopes,
		Issuer: c.Issuer, TokenEndpoint: c.TokenEndpoint, Resource: c.Resource,
	}
}

func fromToolCredential(c *toolserver.Credential) *gatewayv1.ToolCredentialInfo {
	if c.Custody == toolserver.CustodyNone {
		return nil
	}
	return &gatewayv1.ToolCredentialInfo{
		Custody: string(c.Custody), Header: c.Header, Scheme: c.Scheme, Fingerprint: c.Fingerprint, Oauth: fromToolClient(c.OAuth),
	}
}
