//go:build k8s

package cluster

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// kubectl runs a line of kubectl with an input.
func (c *Cluster) kubectl(t *testing.T, input, line string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := c.Kubectl(t.Context(), Request{Args: strings.Fields(line), Dir: t.TempDir(), Input: []byte(input)}, &out)
	return out.String(), err
}

// refuses runs a line that has to fail with some words.
func (c *Cluster) refuses(t *testing.T, input, line, want string) {
	t.Helper()
	if out, err := c.kubectl(t, input, line); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("kubectl %s: %v %s, want %q", line, err, out, want)
	}
}

func (c *Cluster) must(t *testing.T, input, line string) {
	t.Helper()
	if out, err := c.kubectl(t, input, line); err != nil {
		t.Fatalf("kubectl %s: %v %s", line, err, out)
	}
}

// waitsWith waits until a rollout that does not end is explained by some words.
func (c *Cluster) waitsWith(t *testing.T, workload, want string) {
	t.Helper()
	var said error
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		out, err := c.kubectl(t, "", "-n shop rollout status "+workload+" --timeout=100ms")
		if err == nil {
			t.Errorf("%s is ready: %s", workload, out)
			return
		}
		if said = err; strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Errorf("%s: %v, want %q", workload, said, want)
}

const aNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"

// notify has what a service of the base has. Parts of it are replaced by tests.
const notify = `apiVersion: v1
kind: ServiceAccount
metadata: {name: notify, namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: notify, namespace: shop}
stringData: {database-url: "postgres://127.0.0.1:1/none", tokens.yaml: ""}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: notify, namespace: shop}
spec:
  selector: {matchLabels: {app: notify}}
  template:
    metadata: {labels: {app: notify}}
    spec:
      serviceAccountName: notify
      containers:
        - name: notify
          image: registry.acme.example/switchyard/notify:v0.1.0
          args: [serve]
          ports: [{name: http, containerPort: 8103}, {name: grpc, containerPort: 9103}]
          envFrom: [{configMapRef: {name: settings, optional: true}}]
          env:
            - {name: NOTIFY_DATABASE_URL_FILE, value: /secrets/database-url}
            - {name: NOTIFY_SERVICE_TOKENS_FILE, value: /secrets/tokens.yaml}
            - {name: NOTIFY_ENCRYPTION_KEY_FILE, value: /secrets/database-url}
            - {name: NOTIFY_WEBHOOK_EGRESS_ADDRESS, value: "notify.shop.svc:9103"}
            - {name: NOTIFY_WEBHOOK_EGRESS_TOKEN_FILE, value: /secrets/database-url}
          volumeMounts: [{name: secrets, mountPath: /secrets}]
          readinessProbe: {httpGet: {path: /health/ready, port: http}}
      volumes: [{name: secrets, secret: {secretName: notify}}]
---
apiVersion: v1
kind: Service
metadata: {name: notify, namespace: shop}
spec: {selector: {app: notify}, ports: [{name: http, port: 8103, targetPort: http}, {name: grpc, port: 9103, targetPort: grpc}]}
`

const aJob = `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: shop}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: migrate, image: "registry.acme.example/switchyard/notify:v0.1.0", args: [migrate]}]}}
`

// Whatever the page has no use for is an error.
func TestOtherLinesAreRefused(t *testing.T) {
	c := start(t, programs(t))
	for line, want := range map[string]string{
		"get nodes":                     "this cluster has no kubectl get nodes",
		"describe pod x":                "this cluster has no kubectl describe pod x",
		"apply --server-side=true -f -": "unknown flag of kubectl apply here: --server-side",
		"apply":                         "must specify one of -f and -k",
		"delete pod x":                  "want namespace and a name, or job --all here",
		"rollout status deployment/none --timeout=1s":          "deployments \"none\" not found",
		"rollout status cronjob/none --timeout=1s":             "doesn't have a resource type \"cronjob\"",
		"wait --for=condition=complete --timeout=1s job --all": "no matching resources found",
		"wait --for=condition=ready --timeout=1s pod --all":    "want --for=condition=complete job --all here",
		"create secret generic x --from-literal=a=b":           "unknown flag of kubectl create secret here: --from-literal",
		"get secret none -o jsonpath={.data.a}":                "secrets \"none\" not found",
		"exec deployment/none -- /notify":                      "deployments \"none\" not found",
		"scale deployment/none --replicas=2":                   "deployments \"none\" not found",
	} {
		c.refuses(t, aNamespace, line, want)
	}
	err := c.Helm(t.Context(), Request{Args: strings.Fields("uninstall x")}, new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "this cluster has no helm uninstall x") {
		t.Errorf("helm uninstall: %v", err)
	}
}

// The API server refuses what it refuses elsewhere, and keeps the rest of a text.
func TestObjectsAreRefused(t *testing.T) {
	c := start(t, programs(t))
	c.refuses(t, notify, "apply -f -", `namespaces "shop" not found`)
	c.must(t, aNamespace, "apply -f -")
	c.refuses(t, strings.Replace(notify, "serviceAccountName", "serviceAccuontName", 1), "apply -f -", "serviceAccuontName")
	c.refuses(t, "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: x}\n", "apply -f -", `no matches for kind "PodMonitor"`)
	c.must(t, aJob, "apply -f -")
	c.must(t, aJob, "apply -f -") // unchanged
	c.refuses(t, strings.Replace(aJob, "v0.1.0", "v0.2.0", 1)+"---\n"+strings.ReplaceAll(aNamespace, "shop", "other"), "apply -f -",
		`The Job "migrate" is invalid: spec.template: Invalid value: field is immutable`)
	c.must(t, "", "delete namespace other")
	c.refuses(t, "", "-n shop wait --for=condition=complete --timeout=30s job --all", "job.batch/migrate has failed: Back-off restarting failed container migrate")
	c.must(t, "", "-n shop delete job --all")
	c.must(t, strings.Replace(aJob, "v0.1.0", "v0.2.0", 1), "apply -f -")
	c.must(t, notify, "apply -f -")
	c.refuses(t, strings.ReplaceAll(notify, "app: notify", "app: other"), "apply -f -", "spec.selector: Invalid value: field is immutable")
	volume := strings.NewReplacer("Deployment", "StatefulSet", "template:\n", "volumeClaimTemplates: [{metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n  template:\n",
		"spec:\n  selector", "spec:\n  serviceName: notify\n  selector")
	c.must(t, volume.Replace(notify), "apply -f -")
	c.refuses(t, strings.Replace(volume.Replace(notify), "1Gi", "2Gi", 1), "apply -f -", "updates to statefulset spec for fields other than")
}

// A pod that lacks something does not start, and who waits for it learns what it lacks, in kubelet's words.
func TestPodsSayWhatTheyLack(t *testing.T) {
	c := start(t, programs(t))
	c.must(t, aNamespace, "apply -f -")
	for replace, want := range map[[2]string]string{
		{"secretName: notify", "secretName: none"}:                                 `MountVolume.SetUp failed for volume "secrets" : secret "none" not found`,
		{"secretName: notify}", "secretName: notify, items: [{key: a, path: a}]}"}: "references non-existent secret key: a",
		{"name: settings, optional: true", "name: settings"}:                       `Error: configmap "settings" not found`,
		{"notify:v0.1.0", "notify:v0.0.9"}:                                         `Failed to pull image "registry.acme.example/switchyard/notify:v0.0.9": not found`,
		{"args: [serve]", "command: [/gateway]"}:                                   "stat /gateway: no such file or directory",
		{"serviceAccountName: notify", "serviceAccountName: none"}:                 `serviceaccount "none" not found`,
		{"containerPort: 8103", "containerPort: 8104"}:                             "containerPort 8104: the program listens on",
		{"value: \"notify.shop.svc:9103\"", "value: \"notify.shop.svc:9104\""}:     "the Service notify has no port 9104",
		{"NOTIFY_DATABASE_URL_FILE", "NOTIFY_DATABASE_URL_FIEL"}:                   "NOTIFY_DATABASE_URL_FIEL",
		{"tokens.yaml: \"\"", "other: \"\""}:                                       "Back-off restarting failed container notify",
	} {
		text := strings.Replace(notify, replace[0], replace[1], 1)
		if text == notify {
			t.Fatalf("nothing to replace: %s", replace)
		}
		c.must(t, text, "apply -f -")
		c.waitsWith(t, "deployment/notify", want)
	}
	c.must(t, strings.NewReplacer("Deployment", "StatefulSet", "spec:\n  selector", "spec:\n  serviceName: notify\n  volumeClaimTemplates:"+
		" [{metadata: {name: a}, spec: {storageClassName: slow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n  selector").Replace(notify), "apply -f -")
	c.waitsWith(t, "statefulset/notify", `storageclass.storage.k8s.io "slow" not found`)
}

// A Service has the pods with its labels that are ready, at the port that it names, and no others.
func TestServicesFindTheirPods(t *testing.T) {
	all, err := parse([]byte(notify), "")
	if err != nil {
		t.Fatal(err)
	}
	service, of := all[3].service(), all[2].workload().Template
	for name, tt := range map[string]struct {
		labels         map[string]string
		ready, ending  bool
		target         string
		number, expect int
	}{
		"by name":       {of.Metadata.Labels, true, false, "http", 8103, 1},
		"by number":     {of.Metadata.Labels, true, false, "8103", 8103, 1},
		"not ready":     {of.Metadata.Labels, false, false, "http", 8103, 0},
		"ends":          {of.Metadata.Labels, true, true, "http", 8103, 0},
		"other labels":  {map[string]string{"app": "edge"}, true, false, "http", 8103, 0},
		"no such port":  {of.Metadata.Labels, true, false, "web", 8103, 0},
		"other port":    {of.Metadata.Labels, true, false, "http", 80, 0},
		"not listening": {of.Metadata.Labels, true, false, "grpc", 8103, 0},
	} {
		p := &pod{labels: tt.labels, spec: of.Spec, stopping: tt.ending, ports: map[int]string{8103: "127.0.0.1:1"}}
		p.ready.Store(tt.ready)
		service.Ports[0].TargetPort = tt.target
		if got := service.endpoints(tt.number, []*pod{p}); len(got) != tt.expect {
			t.Errorf("%s: %v, want %d", name, got, tt.expect)
		}
	}
}
