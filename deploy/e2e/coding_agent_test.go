//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// codingAgent is a command line that solves tasks with tools.
type codingAgent struct {
	name string
	// model begins the names of its models; Codex offers other tools to models that it knows.
	model string
	// write returns the call of the agent's own tool that writes a file.
	write func(path, text string) object
	// start returns the run of a task in a folder, with a model.
	start func(t *testing.T, npm npmClients, d sdkEndpoint, model, folder string, retries int) clientRun
}

var (
	codex      = codingAgent{"codex", "coding", codexWrites, startCodex}
	codexPatch = codingAgent{"codex-patch", "gpt-5.5", codexPatches, startCodex}
	// codexSocket calls over a WebSocket, and over HTTP where that is refused.
	codexSocket = codingAgent{"codex-socket", "coding", codexWrites, startCodexSocket}
	claudeCode  = codingAgent{"claude-code", "coding", claudeCodeWrites, startClaudeCode}
)

func codexWrites(path, text string) object {
	return toolUse("exec_command", object{"cmd": fmt.Sprintf("printf %%s '%s' > '%s'", text, path)})
}

// codexPatches calls a custom tool, whose input is a text with a grammar. Vendors without custom tools get it as a
// function.
func codexPatches(path, text string) object {
	return toolUse("apply_patch", object{"input": "*** Begin Patch\n*** Add File: " + path + "\n+" + text + "\n*** End Patch\n"})
}

func claudeCodeWrites(path, text string) object {
	return toolUse("Write", object{"file_path": path, "content": text})
}

// toolUse is a tool call in a script of the fake provider.
func toolUse(name string, arguments object) object {
	text, _ := json.Marshal(arguments) // texts never fail
	return object{"name": name, "arguments": json.RawMessage(text)}
}

// codexConfig lets Codex call one provider, and repeat only streams that broke.
const codexConfig = `model = %q
model_provider = "switchyard"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.switchyard]
name = "switchyard"
base_url = %q
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = %d
supports_websockets = %t
http_headers = { "X-Organization-Id" = %q }

[analytics]
enabled = false

[features] # They call GitHub and ChatGPT at the start.
apps = false
plugins = false
`

// codingPrompt is what the agents are asked; the script of the fake provider decides what they do.
const codingPrompt = "Write two files."

func startCodex(t *testing.T, npm npmClients, d sdkEndpoint, model, folder string, retries int) clientRun {
	t.Helper()
	return codexRun(t, npm, d, model, folder, retries, false)
}

func startCodexSocket(t *testing.T, npm npmClients, d sdkEndpoint, model, folder string, retries int) clientRun {
	t.Helper()
	return codexRun(t, npm, d, model, folder, retries, true)
}

func codexRun(t *testing.T, npm npmClients, d sdkEndpoint, model, folder string, retries int, socket bool) clientRun {
	t.Helper()
	home := t.TempDir()
	config := fmt.Sprintf(codexConfig, model, d.openAI, retries, socket, d.organization)
	if d.organization == "" {
		config = strings.Replace(config, `http_headers = { "X-Organization-Id" = "" }`+"\n", "", 1)
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	program := npm.file(t, "@openai/codex-linux-"+npm.arch+"/vendor/*/bin/codex")
	return clientRun{program, []string{"exec", "--skip-git-repo-check", "-C", folder, codingPrompt}, folder, append(d.env(), "CODEX_HOME="+home)}
}

func startClaudeCode(t *testing.T, npm npmClients, d sdkEndpoint, model, folder string, retries int) clientRun {
	t.Helper()
	env := append(d.env(), "ANTHROPIC_DEFAULT_HAIKU_MODEL="+model,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
		fmt.Sprint("CLAUDE_CODE_MAX_RETRIES=", retries))
	if d.organization != "" {
		env = append(env, "ANTHROPIC_CUSTOM_HEADERS=X-Organization-Id: "+d.organization)
	}
	program := npm.file(t, "@anthropic-ai/claude-code-linux-"+npm.arch+"/claude")
	return clientRun{program, []string{"-p", codingPrompt, "--model", model, "--allowedTools", "Write"}, folder, env}
}

// codingTask is a task of an agent: three calls, of which the first two are answered with a tool call.
type codingTask struct {
	name     string
	agent    codingAgent
	endpoint int // of sdkEndpoints
	first    vendor
	// second takes over from the first vendor, which fails after its first answer; without a name the first serves all.
	second vendor
	// breaks: the second answer breaks after its beginning, so that only the agent can repeat the call.
	breaks bool
}

// served returns the names of the vendors that answer the task's calls: three, and one that breaks.
func (c codingTask) served() []string {
	switch {
	case c.breaks:
		return []string{c.first.name, c.first.name, c.first.name, c.first.name}
	case c.second.name == "":
		return []string{c.first.name, c.first.name, c.first.name}
	}
	return []string{c.first.name, c.second.name, c.second.name}
}

// rules returns the script of the vendors, which answer with a conversation.
func (c codingTask) rules(conversation object) []rule {
	first, second := c.first.at("*"), c.second.at("*")
	if c.first.dialect == "anthropic" {
		first = c.first.at(c.first.answerPath()) // Claude Code counts tokens, too.
	}
	switch {
	case c.breaks:
		return []rule{{first, 1, conversation}, {first, 1, conversation.with(object{"error_after_chunks": 6, "status": 503})}, {first, 0, conversation}}
	case c.second.name == "":
		return []rule{{first, 0, conversation}}
	}
	rules := []rule{{first, 1, conversation}, {first, 0, object{"status": 503}}, {second, 0, conversation}}
	if c.first.dialect == "anthropic" {
		// Claude Code tries a message of the system behind the first one, which the fake refuses whatever its script says,
		// and goes on without. That try must not take the first vendor's one answer.
		rules = append([]rule{{object{"path": c.first.answerPath(), "body": `"role":"system"`}, 0, conversation}}, rules...)
	}
	return rules
}

// tasksOf returns a task for each endpoint, with vendors of its own: a dialect each, or "responses" for one of
// OpenAI's with the Responses API.
func tasksOf(agent codingAgent, name string, dialects ...string) (tasks []codingTask) {
	for endpoint, place := range []string{"gateway", "edge"} {
		task := codingTask{name: fmt.Sprint(agent.name, ", ", name, ", ", place), agent: agent, endpoint: endpoint}
		model := fmt.Sprintf("%s-%s-%d", agent.model, agent.name, len(vendors))
		for i, v := range []*vendor{&task.first, &task.second}[:len(dialects)] {
			*v = vendor{name: fmt.Sprint(model, "-", i+1), dialect: dialects[i], model: model, upstream: fmt.Sprint(model, "-upstream-", i+1)}
			if dialects[i] == "responses" {
				v.dialect, v.more = "openai", object{"responses": true}
			}
			addVendor(*v)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

var codingTasks = slices.Concat(
	tasksOf(codex, "own dialect", "responses"),
	tasksOf(codex, "chat completions", "openai"),
	tasksOf(codex, "Anthropic", "anthropic"),
	tasksOf(codex, "failover to chat completions", "responses", "openai"),
	tasksOf(codex, "failover to Anthropic", "responses", "anthropic"),
	tasksOf(codex, "failover to another account", "responses", "responses"),
	tasksOf(codex, "failover from Anthropic", "anthropic", "responses"),
	tasksOf(codexPatch, "own dialect", "responses"),
	tasksOf(codexPatch, "chat completions", "openai"),
	tasksOf(codexPatch, "failover to Anthropic", "responses", "anthropic"),
	tasksOf(codexSocket, "own dialect", "responses"),
	tasksOf(codexSocket, "chat completions", "openai"),
	tasksOf(codexSocket, "failover to Anthropic", "responses", "anthropic"),
	tasksOf(claudeCode, "own dialect", "anthropic"),
	tasksOf(claudeCode, "chat completions", "openai"),
	tasksOf(claudeCode, "Responses", "responses"),
	tasksOf(claudeCode, "failover to chat completions", "anthropic", "openai"),
	tasksOf(claudeCode, "failover to Responses", "anthropic", "responses"),
	tasksOf(claudeCode, "failover from chat completions", "openai", "anthropic"),
	broken(tasksOf(codex, "broken stream", "responses")),
	broken(tasksOf(codex, "broken stream of chat completions", "openai")),
	broken(tasksOf(claudeCode, "broken stream", "anthropic")),
	broken(tasksOf(claudeCode, "broken stream of chat completions", "openai")),
)

// broken returns the tasks with an answer that breaks.
func broken(tasks []codingTask) []codingTask {
	for i := range tasks {
		tasks[i].breaks = true
	}
	return tasks
}

// Codex and Claude Code write two files, whichever dialects the vendors speak that serve them, when one fails between two
// calls, and when a stream breaks.
func TestCodingAgents(t *testing.T) {
	t.Parallel()
	npm := clients(t)
	h := use(t)
	for _, task := range codingTasks {
		t.Run(task.name, func(t *testing.T) {
			t.Parallel()
			programTurns.take(t, t.Name(), false)
			h.codes(t, npm, task)
		})
	}
}

const (
	firstText  = "written by the first call"
	secondText = "written by the second call"
	lastWords  = "Both files are written."
)

// codes runs a task and checks its files, what the agent said at the end, and which vendors served.
func (h *harness) codes(t *testing.T, npm npmClients, task codingTask) {
	t.Helper()
	organization, folder := unique("org"), t.TempDir()
	first, second := filepath.Join(folder, "first.txt"), filepath.Join(folder, "second.txt")
	// The vendors refuse the next call if it has thinking of another vendor or account. The second thinking is as long as
	// the part that comes before a stream breaks: Claude Code repeats no call of which a block is finished.
	conversation := object{"answer": object{
		"thinking": "I begin with the first.", "tool_calls": []object{task.agent.write(first, firstText)},
		"then": []object{
			{"thinking": "Now the second, which I write in the same way as the first.", "tool_calls": []object{task.agent.write(second, secondText)}},
			{"text": lastWords},
		},
	}}
	h.script(t, stack.FakeProvider, task.rules(conversation)...)
	retries := 0
	if task.breaks {
		retries = 2
	}
	out := task.agent.start(t, npm, h.sdkEndpointsOf(t, organization)[task.endpoint], task.first.named(), folder, retries).run(t)
	if !strings.Contains(out, lastWords) {
		t.Errorf("the agent ended without %q:\n%s", lastWords, out)
	}
	for path, want := range map[string]string{first: firstText, second: secondText} {
		if text, err := os.ReadFile(path); err != nil || strings.TrimSuffix(string(text), "\n") != want {
			t.Errorf("%s: %q, error %v, want %q", filepath.Base(path), text, err, want)
		}
	}
	waitFor(t, waitTimeout, "the ledger rows of the task", func() error {
		if served := h.servedBy(t, organization); !slices.Equal(served, task.served()) {
			return fmt.Errorf("served by %q, want %q", served, task.served())
		}
		return nil
	})
	if task.agent.name == codexSocket.name {
		waitFor(t, waitTimeout, "the log line of the WebSocket", func() error { return h.connected(organization) })
	}
}

// connected returns an error unless the gateway has logged the end of a WebSocket of an organization on which a task's three
// requests came.
func (h *harness) connected(organization string) error {
	log, err := os.ReadFile(filepath.Join(h.logs(), "gateway.log"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(log)) {
		var call struct {
			Code     int `json:"websocket_code"`
			Messages int `json:"messages"`
		}
		if strings.Contains(line, organization) && json.Unmarshal([]byte(line), &call) == nil && call.Code != 0 && call.Messages >= 3 {
			return nil
		}
	}
	return errors.New("there is none")
}

// servedBy returns the providers of an organization's ledger rows, oldest first.
func (h *harness) servedBy(t *testing.T, organization string) (providers []string) {
	t.Helper()
	var page struct {
		Records []struct {
			Provider string `json:"provider"`
		} `json:"records"`
	}
	h.service(stack.Gateway, organization).get(t, "/v1/usage").into(t, http.StatusOK, &page)
	for _, r := range page.Records {
		providers = append(providers, r.Provider)
	}
	return providers
}
