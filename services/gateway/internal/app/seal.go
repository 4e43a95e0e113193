package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/platform/bounded"
	"switchyard.dev/services/platform/command"
	"switchyard.dev/services/platform/secret"
)

// maxKey bounds the size in bytes of a provider's key and of a sealing key.
const maxKey = 8 << 10

// fetchTimeout bounds the request for a gateway's sealing key.
const fetchTimeout = 10 * time.Second

// byokCommand returns `gateway byok`. It needs no settings and no database. A provider's key is never an argument, since
// other users of a machine can see arguments.
func byokCommand() *cobra.Command {
	return command.Group("byok", "make and use keys that seal the credentials of organizations", keygenCommand(), sealCommand())
}

func keygenCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "keygen", Short: "print a new sealing key",
		Long: "Prints a new sealing key. Write it to a file NAME.key in the folder of " + prefix + "_SEALING_KEYS_DIR.",
	}
	kem := c.Flags().String("kem", sealing.X25519, "key encapsulation: "+sealing.X25519+" or mlkem768-x25519")
	c.RunE = func(c *cobra.Command, _ []string) error {
		key, err := sealing.Generate(*kem, time.Now())
		if err != nil {
			return err
		}
		text, err := key.Text()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), text.Reveal())
		return err
	}
	return c
}

// publicKey is the response of GET /v1/byok/sealing-key.
type publicKey struct {
	KeyID     string `json:"key_id"`
	PublicKey []byte `json:"public_key"`
	KEM       uint16 `json:"kem_id"`
	KDF       uint16 `json:"kdf_id"`
	AEAD      uint16 `json:"aead_id"`
	Info      string `json:"info_template"`
}

// sealedProvider returns the name that a credential is sealed to: a provider's in lower case, or that of a tool server,
// given as "mcp/" and its id.
func sealedProvider(name string) string {
	if id, ok := strings.CutPrefix(name, toolserver.SealedTo("")); ok {
		return toolserver.SealedTo(id)
	}
	return strings.ToLower(name)
}

// sealRequest names what is sealed, for whom, and with which key.
type sealRequest struct {
	organization, provider, gateway, tokenFile, publicFile, keyFile string
}

func sealCommand() *cobra.Command {
	var r sealRequest
	c := &cobra.Command{
		Use: "seal", Short: "seal a provider's key for an organization",
		Long: "Reads a provider's key from standard input or a file, and prints the body of POST /v1/byok/config. The key to seal with is\n" +
			"asked from a gateway or read from a file.",
	}
	flags := c.Flags()
	flags.StringVar(&r.organization, "organization", "", "`ID` of the organization; absent only for a tool server of all")
	flags.StringVar(&r.provider, "provider", "", "`NAME` of the provider, or mcp/ and the id of a tool server")
	flags.StringVar(&r.gateway, "gateway", "", "base `URL` of the gateway to ask for its sealing key")
	flags.StringVar(&r.tokenFile, "token-file", "", "`FILE` with a service token for the gateway")
	flags.StringVar(&r.publicFile, "public-key", "", "`FILE` with the answer of GET /v1/byok/sealing-key")
	flags.StringVar(&r.keyFile, "key-file", "", "`FILE` with the provider's key; standard input if absent")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		name := sealedProvider(r.provider)
		if r.organization == "" && !strings.HasPrefix(name, toolserver.SealedTo("")) || name == "" || (r.gateway == "") == (r.publicFile == "") {
			return command.Wrong(c, "--organization, --provider and one of --gateway and --public-key are required")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return sealCredential(c.Context(), r, c.InOrStdin(), c.OutOrStdout())
	}
	return c
}

func sealCredential(ctx context.Context, r sealRequest, in io.Reader, out io.Writer) error {
	public, err := readPublicKey(ctx, r.gateway, secret.File(r.tokenFile), r.publicFile)
	if err != nil {
		return err
	}
	credential, err := readCredential(r.keyFile, in)
	if err != nil {
		return err
	}
	name := sealedProvider(r.provider)
	sealed, err := public.Seal(r.organization, name, credential)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"organization_id": r.organization, "provider": name,
		"sealed": map[string]string{"key_id": public.ID, "ciphertext": base64.StdEncoding.EncodeToString(sealed)},
	})
	if err != nil {
		return fmt.Errorf("write body: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s\n", body)
	return err
}

func readPublicKey(ctx context.Context, gateway string, token secret.File, path string) (sealing.Public, error) {
	var text []byte
	var err error
	if path != "" {
		text, err = bounded.ReadFile(path, maxKey)
	} else {
		text, err = fetchPublicKey(ctx, gateway, token)
	}
	if err != nil {
		return sealing.Public{}, fmt.Errorf("sealing key: %w", err)
	}
	var key publicKey
	if err := json.Unmarshal(text, &key); err != nil {
		return sealing.Public{}, errors.New("sealing key: not the answer of GET /v1/byok/sealing-key")
	}
	if key.Info != sealing.InfoTemplate {
		return sealing.Public{}, errors.New("sealing key: the gateway binds sealed credentials to another info_template than this program; use a program of the gateway's version")
	}
	return sealing.Public{ID: key.KeyID, Key: key.PublicKey, KEM: key.KEM, KDF: key.KDF, AEAD: key.AEAD}, nil
}

func fetchPublicKey(ctx context.Context, gateway string, token secret.File) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	at, err := url.JoinPath(gateway, "/v1/byok/sealing-key")
	if err != nil {
		return nil, errors.New("--gateway: not a URL")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, errors.New("--gateway: not a URL")
	}
	if token != "" {
		value, err := token.Read()
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+value.Reveal())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // It was read.
	text, err := io.ReadAll(io.LimitReader(response.Body, maxKey))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the gateway answered %s: %s", response.Status, bytes.TrimSpace(text))
	}
	return text, err
}

// readCredential reads exactly one provider key.
func readCredential(path string, in io.Reader) (secret.Value, error) {
	if path != "" {
		return secret.File(path).Read()
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKey+1))
	key := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return secret.Value{}, fmt.Errorf("read key: %w", err)
	case key == "" || len(text) > maxKey || strings.ContainsAny(key, "\r\n"):
		return secret.Value{}, fmt.Errorf("read key: want one line of at most %d bytes on standard input", maxKey)
	}
	return secret.New(key), nil
}
