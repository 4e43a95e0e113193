// Uses all that a tool server offers at URL, with the client of the protocol's TypeScript SDK, and prints what came back
// as JSON. HEADERS are a JSON object. What the server asks in the course of a call gets the same answers each time.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const calls = [
  ['echo', { message: 'hello' }],
  ['echo', {}], // refused: an argument is missing
  ['get-annotated-message', { messageType: 'error', includeImage: true }],
  ['get-resource-links', { count: 4 }],
  ['get-resource-reference', { resourceType: 'Blob', resourceId: 2 }],
  ['get-structured-content', { location: 'Chicago' }],
  ['get-structured-content', { location: 'Paris' }], // refused: none of the choices
  ['get-sum', { a: 2, b: 3 }],
  ['get-tiny-image', {}],
  ['gzip-file-as-resource', { name: 'a.gz', data: 'data:text/plain;base64,aGVsbG8=', outputType: 'resource' }],
  ['trigger-long-running-operation', { duration: 0.5, steps: 5 }],
  ['trigger-elicitation-request', {}],
  ['trigger-sampling-request', { prompt: 'hello', maxTokens: 20 }],
];

const asked = [];
const client = new Client({ name: 'everything', version: '1' }, { capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  asked.push(['elicitation', params.requestedSchema]);
  return { action: 'accept', content: { name: 'Ann', check: true } };
});
client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
  asked.push(['sampling', params.messages, params.maxTokens]);
  return { role: 'assistant', model: 'test', content: { type: 'text', text: 'sampled' } };
});
// This server asks for roots outside of calls, once, so that nothing depends on them here.
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }));

// outcome returns a result without what differs from one time to the next, or that there was none. Of a tool's error the
// text may be of who found it first.
async function outcome(promise) {
  const got = await promise.catch(() => ({ failed: true }));
  if (got.isError) return { isError: true };
  const text = JSON.stringify(got, (key, value) => (key === '_meta' ? undefined : key === 'blob' ? value.length : value));
  return JSON.parse(text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z|\d+:\d\d:\d\d [AP]M/g, 'TIME'));
}

const url = new URL(process.env.URL);
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: JSON.parse(process.env.HEADERS ?? '{}') } }));
const report = { tools: await outcome(client.listTools()) };
report.tools.tools.sort((a, b) => (a.name < b.name ? -1 : 1));
// Before the calls: one of them adds a resource to the server's own session, which lists of all callers don't have.
report.resources = (await outcome(client.listResources())).resources.sort((a, b) => (a.uri < b.uri ? -1 : 1));
for (const [name, args] of calls) {
  const progress = [];
  const result = await outcome(client.callTool({ name, arguments: args }, undefined, name.startsWith('trigger-long') ? { onprogress: (p) => progress.push(p.progress) } : {}));
  report[`${name} ${JSON.stringify(args)}`] = progress.length ? { result, progress } : result;
}
report.asked = asked;
report.templates = (await outcome(client.listResourceTemplates())).resourceTemplates.sort((a, b) => (a.name < b.name ? -1 : 1));
report.prompts = (await outcome(client.listPrompts())).prompts.sort((a, b) => (a.name < b.name ? -1 : 1));
for (const uri of [report.resources[0].uri, 'demo://resource/dynamic/text/1', 'demo://resource/dynamic/blob/2', 'demo://none']) {
  report[`read ${uri}`] = await outcome(client.readResource({ uri }));
}
for (const [name, args] of [['simple-prompt', {}], ['args-prompt', { city: 'Paris' }], ['args-prompt', {}], ['resource-prompt', { resourceType: 'Text', resourceId: '1' }]]) {
  report[`prompt ${name} ${JSON.stringify(args)}`] = await outcome(client.getPrompt({ name, arguments: args }));
}
report.completion = await outcome(client.complete({ ref: { type: 'ref/prompt', name: 'completable-prompt' }, argument: { name: 'department', value: 'E' } }));
await client.close();
console.log(JSON.stringify(report, null, 1));
