package identity

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/deploy/fakes/sigv4"
)

// accessKey is a temporary key.
type accessKey struct {
	secret, session string
	expires         time.Time
}

const (
	containerPath = "/aws/container/v1/credentials"
	rolesPath     = "/latest/meta-data/iam/security-credentials/"
	headerIMDS    = "X-Aws-Ec2-Metadata-Token"
	headerTTL     = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	timeForm      = "2006-01-02T15:04:05Z"
)

func (s *Server) serveAWS(api *http.ServeMux) {
	api.HandleFunc("POST /{$}", s.sts)
	api.HandleFunc("GET "+containerPath, s.container)
	api.HandleFunc("PUT /latest/api/token", s.imdsToken)
	api.HandleFunc("GET "+rolesPath, s.instance)
}

// Key returns a key of AWS by its id: the permanent one, or one that was issued.
func (s *Server) Key(id string) (sigv4.Key, bool) {
	if id == AccessKeyID {
		return sigv4.Key{Secret: SecretAccessKey}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.keys[id]
	return sigv4.Key{Secret: key.secret, SessionToken: key.session, Expires: key.expires}, ok
}

// issueKey returns a new temporary key and its id.
func (s *Server) issueKey() (id string, key accessKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = "ASIA" + random(8)
	id = "ASIA" + upper(id[4:])
	key = accessKey{random(20), "session+" + random(40) + "==", s.now().Add(s.settings.lifetime())}
	if len(s.keys) >= maxIssued {
		clear(s.keys)
	}
	s.keys[id] = key
	return id, key
}

func upper(text string) string {
	out := []byte(text)
	for i, c := range out {
		if c >= 'a' && c <= 'z' {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}

// stsError is a refusal of the Security Token Service.
type stsError struct {
	code string
	err  error
}

func (e stsError) Error() string { return e.code + ": " + e.err.Error() }

func (s *Server) sts(w http.ResponseWriter, r *http.Request) {
	body, err := readForm(r)
	action := r.PostForm.Get("Action")
	kind := "aws." + action
	switch {
	case err != nil:
	case r.PostForm.Get("Version") != "2011-06-15":
		err = stsError{"InvalidAction", errors.New("want Version 2011-06-15")}
	case r.PostForm.Get("RoleSessionName") == "":
		err = stsError{"ValidationError", errors.New("RoleSessionName is missing")}
	case r.PostForm.Get("RoleArn") != RoleARN:
		err = stsError{"AccessDenied", errors.New("not authorized to assume the role")}
	case action == "AssumeRoleWithWebIdentity":
		kind = "aws.web_identity"
		err = s.webIdentity(r)
	case action == "AssumeRole":
		kind = "aws.assume_role"
		err = s.assumeRole(r, body)
	default:
		err = stsError{"InvalidAction", fmt.Errorf("no action %q", action)}
	}
	if err != nil {
		s.record(kind, "", "", err)
		refuseSTS(w, err)
		return
	}
	id, key := s.issueKey()
	s.record(kind, RoleARN, id, nil)
	writeSTS(w, action, id, key)
}

func (s *Server) webIdentity(r *http.Request) error {
	if r.Header.Get("Authorization") != "" {
		return stsError{"ValidationError", errors.New("the call must not be signed")}
	}
	if _, err := s.workload(r.PostForm.Get("WebIdentityToken"), AudienceAWS); err != nil {
		return stsError{"InvalidIdentityToken", err}
	}
	return nil
}

func (s *Server) assumeRole(r *http.Request, body []byte) error {
	options := sigv4.Options{Keys: s.Key, Service: "sts", Now: s.now}
	if _, err := options.Verify(r, body); err != nil {
		return stsError{"SignatureDoesNotMatch", err}
	}
	if r.PostForm.Get("ExternalId") != ExternalID {
		return stsError{"AccessDenied", errors.New("not authorized to assume the role: another ExternalId")}
	}
	return nil
}

func refuseSTS(w http.ResponseWriter, err error) {
	refused, ok := errors.AsType[stsError](err)
	if !ok {
		refused = stsError{"MalformedInput", err}
	}
	w.Header().Set("Content-Type", "text/xml")
	status := http.StatusBadRequest
	if refused.code == "AccessDenied" || refused.code == "SignatureDoesNotMatch" {
		status = http.StatusForbidden
	}
	w.WriteHeader(status)
	var text errorResponse
	text.Error.Type, text.Error.Code, text.Error.Message = "Sender", refused.code, refused.err.Error()
	_ = xml.NewEncoder(w).Encode(text)
}

type errorResponse struct {
	XMLName xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
	Error   struct {
		Type, Code, Message string
	}
}

func writeSTS(w http.ResponseWriter, action, id string, key accessKey) {
	w.Header().Set("Content-Type", "text/xml")
	var answer stsAnswer
	answer.XMLName.Space, answer.XMLName.Local = "https://sts.amazonaws.com/doc/2011-06-15/", action+"Response"
	answer.Result.XMLName.Local = action + "Result"
	answer.Result.AssumedRoleUser.AssumedRoleId = "AROAFAKES:gateway"
	answer.Result.AssumedRoleUser.Arn = "arn:aws:sts::123456789012:assumed-role/gateway/gateway"
	answer.Result.Credentials.AccessKeyId, answer.Result.Credentials.SecretAccessKey = id, key.secret
	answer.Result.Credentials.SessionToken = key.session
	answer.Result.Credentials.Expiration = key.expires.UTC().Format(time.RFC3339Nano)
	_ = xml.NewEncoder(w).Encode(answer)
}

// stsAnswer is the answer of both actions, with the names of AWS.
type stsAnswer struct {
	XMLName xml.Name
	Result  struct {
		XMLName         xml.Name
		AssumedRoleUser struct{ AssumedRoleId, Arn string }                                     //nolint:revive // See stsAnswer.
		Credentials     struct{ AccessKeyId, SecretAccessKey, SessionToken, Expiration string } //nolint:revive // See stsAnswer.
	}
}

// writeKey writes a key as the metadata servers do.
func writeKey(w http.ResponseWriter, id string, key accessKey) {
	writeJSON(w, http.StatusOK, map[string]string{
		"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": id, "SecretAccessKey": key.secret, "Token": key.session,
		"LastUpdated": time.Now().UTC().Format(timeForm), "Expiration": key.expires.UTC().Format(time.RFC3339Nano),
	})
}

// container is the server of ECS and EKS.
func (s *Server) container(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != ContainerToken {
		err := errors.New("another authorization token")
		s.record("aws.container", "", "", err)
		writeJSON(w, http.StatusForbidden, map[string]string{"code": "AccessDenied", "message": err.Error()})
		return
	}
	id, key := s.issueKey()
	s.record("aws.container", RoleARN, id, nil)
	writeKey(w, id, key)
}

// imdsToken gives out the token that version 2 of the metadata server demands.
func (s *Server) imdsToken(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.Header.Get(headerTTL))
	if err != nil || seconds < 1 || seconds > 21600 || r.Header.Get("X-Forwarded-For") != "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	text := random(28)
	s.mu.Lock()
	if len(s.imds) >= maxIssued {
		clear(s.imds)
	}
	s.imds[text] = s.now().Add(time.Duration(seconds) * time.Second)
	s.mu.Unlock()
	w.Header().Set(headerTTL, strconv.Itoa(seconds))
	_, _ = w.Write([]byte(text))
}

// instance is the metadata server of EC2, version 2 only.
func (s *Server) instance(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	expires, ok := s.imds[r.Header.Get(headerIMDS)]
	s.mu.Unlock()
	if !ok || !s.now().Before(expires) {
		s.record("aws.instance", "", "", errors.New("without a token of version 2"))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case rolesPath:
		_, _ = w.Write([]byte(InstanceRole))
	case rolesPath + InstanceRole:
		id, key := s.issueKey()
		s.record("aws.instance", InstanceRole, id, nil)
		writeKey(w, id, key)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
