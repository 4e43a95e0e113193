// openai-node: responses and their state, chat completions, embeddings, images, moderation, sound, files and batches, and
// Azure's paths.
import OpenAI, { AzureOpenAI, toFile } from '#openai';
import { above, citySchema, eachModel, ends, headers, jsonQuestion, rejected, same, thinkingQuestion, thinks, toolQuestion, until } from './check.mjs';

const client = new OpenAI({ defaultHeaders: headers });

// The final response of a stream has no output_text in the SDK's earlier majors.
const textOf = (response) => response.output.flatMap((item) => item.content ?? []).map((part) => part.text ?? '').join('');

async function responses(model) {
  const whole = await client.responses.create({ model, input: 'hello there' });
  ends('text', whole.output_text, 'hello there');
  same('status', whole.status, 'completed');
  same('total tokens', whole.usage.total_tokens, whole.usage.input_tokens + whole.usage.output_tokens);

  const kinds = [];
  const stream = client.responses.stream({ model, input: 'one two three', previous_response_id: whole.id });
  stream.on('event', (event) => kinds.push(event.type));
  const final = await stream.finalResponse();
  ends('streamed text', textOf(final), 'one two three');
  same('previous response', final.previous_response_id, whole.id);
  same('first events', kinds.slice(0, 2), ['response.created', 'response.in_progress']);
  above('deltas', kinds.filter((kind) => kind === 'response.output_text.delta').length, 1);

  same('retrieved text', (await client.responses.retrieve(final.id)).output_text, textOf(final));
  const items = [];
  for await (const item of client.responses.inputItems.list(final.id, { order: 'asc', limit: 2 })) items.push(item.role);
  same('roles of the input items', items, ['user', 'assistant', 'user']);
  await client.responses.delete(final.id);
  same('status after the deletion', (await rejected('a deleted response', client.responses.retrieve(final.id))).status, 404);
}

async function responseTools(model) {
  const tools = [
    { type: 'function', name: 'get_weather', parameters: citySchema, strict: true },
    { type: 'web_search' }, // An offer that vendors without it leave out.
  ];
  const asked = await client.responses.stream({ model, input: toolQuestion, tools }).finalResponse();
  const call = asked.output.find((item) => item.type === 'function_call');
  same('tool', call?.name, 'get_weather');
  same('type of the argument', typeof JSON.parse(call.arguments).city, 'string');
  const told = await client.responses.create({
    model, tools, previous_response_id: asked.id, input: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }],
  });
  ends('text after the result', told.output_text, 'sunny');
}

// A response that is made in the background is polled, its events are read again, and one that has ended stays as it is.
async function backgroundResponse(model) {
  let response = await client.responses.create({ model, input: 'hello there', background: true });
  same('first status', response.status, 'queued');
  for (let polls = 0; ['queued', 'in_progress'].includes(response.status) && polls < 600; polls++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    response = await client.responses.retrieve(response.id);
  }
  same('status', response.status, 'completed');
  ends('text', response.output_text, 'hello there');
  same('status after cancel', (await client.responses.cancel(response.id)).status, 'completed');

  const events = [];
  for await (const event of await client.responses.create({ model, input: 'one two three', background: true, stream: true })) events.push(event);
  same('numbers', events.map((event) => event.sequence_number), events.map((_, i) => i));
  const rest = [];
  const again = await client.responses.retrieve(events[0].response.id, { stream: true, starting_after: 2 });
  for await (const event of again) rest.push(event.type);
  same('events after number 2', rest, events.slice(3).map((event) => event.type));
}

// A shortened conversation goes on, and the tokens of a request are counted before it is sent.
async function compaction(model) {
  const first = await client.responses.create({ model, input: 'the code is 4711' });
  const count = await client.responses.inputTokens.count({ model, previous_response_id: first.id });
  above('input tokens', count.input_tokens, 5);
  const short = await client.responses.compact({ model, previous_response_id: first.id });
  same('the last item', short.output.at(-1).type, 'compaction');
  const next = await client.responses.create({ model, store: false, input: [...short.output, { role: 'user', content: 'and now?' }] });
  ends('text', next.output_text, 'and now?');
}

// The conversation goes on from the thinking of the first answer: by its id, and by its items.
async function responseThinking(model) {
  if (!thinks(model)) return;
  const tools = [{ type: 'function', name: 'get_weather', parameters: citySchema, strict: true }];
  const asked = await client.responses.stream({ model, input: thinkingQuestion, tools }).finalResponse();
  same('items', asked.output.map((item) => item.type), ['reasoning', 'function_call']);
  same('summary', asked.output[0].summary[0].text, 'I need the weather.');
  const result = { type: 'function_call_output', call_id: asked.output[1].call_id, output: 'sunny' };
  const told = await client.responses.create({ model, tools, previous_response_id: asked.id, input: [result] });
  same('text', told.output_text, 'It is warm');
  const again = await client.responses.create({
    model, tools, store: false, input: [{ role: 'user', content: thinkingQuestion }, ...asked.output, result],
  });
  same('text from the items', again.output_text, 'It is warm');
}

async function responseSchema(model) {
  const format = { type: 'json_schema', name: 'place', strict: true, schema: citySchema };
  const parsed = await client.responses.parse({ model, input: jsonQuestion, text: { format } });
  same('type of the field', typeof parsed.output_parsed?.city, 'string');
}

// A caller leaves a stream before its end.
async function responseAbort(model) {
  const stream = await client.responses.create({ model, input: 'one two three', stream: true });
  for await (const event of stream) {
    if (event.type === 'response.created') break;
  }
  same('the stream is aborted', stream.controller.signal.aborted, true);
}

async function responseErrors(model) {
  const unknown = await rejected('an unknown previous response', client.responses.create({ model, input: 'x', previous_response_id: 'resp_nope' }));
  same('code', unknown.code, 'previous_response_not_found');
  same('param', unknown.param, 'previous_response_id');
  const missing = await rejected('an unknown model', client.responses.create({ model: 'no-such-model', input: 'x' }));
  same('class', missing.constructor.name, 'NotFoundError');
}

async function chat(model) {
  const whole = await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'hello there' }] });
  ends('text', whole.choices[0].message.content, 'hello there');
  same('model', whole.model, model);
  const stream = client.chat.completions.stream({
    model, messages: [{ role: 'user', content: 'one two three' }], stream_options: { include_usage: true },
  });
  ends('streamed text', await stream.finalContent(), 'one two three');
  above('tokens', (await stream.totalUsage()).total_tokens, 2);
}

async function chatTools(model) {
  const runner = client.chat.completions.runTools({
    model, messages: [{ role: 'user', content: toolQuestion }], stream: true,
    tools: [{ type: 'function', function: { name: 'get_weather', parameters: citySchema, parse: JSON.parse, function: async () => 'sunny' } }],
  });
  ends('text after the result', await runner.finalContent(), 'sunny');
}

await eachModel(responses, backgroundResponse, compaction, responseTools, responseThinking, responseSchema, responseAbort, responseErrors, chat, chatTools);

const vectors = await client.embeddings.create({ model: process.env.EMBEDDING_MODEL, input: ['one', 'two'], dimensions: 8 });
same('lengths of the vectors', vectors.data.map((vector) => vector.embedding.length), [8, 8]);
const picture = await client.images.generate({ model: process.env.IMAGE_MODEL, prompt: 'a black cat' });
same('begin of the picture', picture.data[0].b64_json?.slice(0, 6), 'iVBORw');
const judged = await client.moderations.create({ model: 'sandbox', input: 'hello' });
same('type of the verdict', typeof judged.results[0].flagged, 'boolean');
const speech = await client.audio.speech.create({ model: 'sandbox', voice: 'alloy', input: 'hello there' });
above('bytes of speech', (await speech.arrayBuffer()).byteLength, 100);
const transcript = await client.audio.transcriptions.create({ model: 'sandbox', file: await toFile(Buffer.from('RIFF'), 'a.wav') });
same('transcription', transcript.text, 'A recording of 4 bytes.');
const edited = await client.images.edit({ model: 'sandbox', prompt: 'a hat', image: await toFile(Buffer.from('x'), 'a.png', { type: 'image/png' }) });
same('begin of the edited picture', edited.data[0].b64_json?.slice(0, 6), 'iVBORw');
const text = await client.completions.create({ model: 'sandbox', prompt: 'hello there' });
same('completion', text.choices[0].text, 'hello there');

// Batches: made of a file, polled, and read with the caller's ids and name of the model; listed, cancelled.
const batchModel = process.env.OPENAI_BATCH_MODEL;
const asked = ['one', 'two', 'three'];
const lines = asked.map((content) => JSON.stringify({
  custom_id: content, method: 'POST', url: '/v1/chat/completions', body: { model: batchModel, messages: [{ role: 'user', content }] },
}));
const uploaded = await client.files.create({ file: await toFile(Buffer.from(lines.join('\n')), 'requests.jsonl'), purpose: 'batch' });
const job = { input_file_id: uploaded.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
const made = await client.batches.create(job);
const ended = await until(() => client.batches.retrieve(made.id), (batch) => batch.completed_at);
same('counts', ended.request_counts, { total: 3, completed: 3, failed: 0 });
const output = (await (await client.files.content(ended.output_file_id)).text()).trim().split('\n').map((line) => JSON.parse(line));
same('custom ids', output.map((result) => result.custom_id).sort(), [...asked].sort());
for (const result of output) {
  same('model of a result', result.response.body.model, batchModel);
  ends('text of a result', result.response.body.choices[0].message.content, result.custom_id);
}
const batchIDs = [];
for await (const batch of client.batches.list({ limit: 1 })) batchIDs.push(batch.id);
same('the batch is listed', batchIDs.includes(made.id), true);
const cancelled = await client.batches.create(job);
await client.batches.cancel(cancelled.id);
await until(() => client.batches.retrieve(cancelled.id), (batch) => batch.cancelled_at);
same('deleted', (await client.files.delete(uploaded.id)).deleted, true);
same('status after the deletion', (await rejected('a deleted file', client.files.retrieve(uploaded.id))).status, 404);

const azure = new AzureOpenAI({ endpoint: process.env.AZURE_ENDPOINT, apiKey: process.env.OPENAI_API_KEY, baseURL: null, apiVersion: '2024-10-21', defaultHeaders: headers });
const deployed = await azure.chat.completions.create({ model: 'sandbox', messages: [{ role: 'user', content: 'hello there' }] });
ends('text of a deployment', deployed.choices[0].message.content, 'hello there');
const answered = await azure.responses.create({ model: 'sandbox', input: 'hello there' });
ends('response of Azure', answered.output_text, 'hello there');
ends('the same, retrieved', (await azure.responses.retrieve(answered.id)).output_text, 'hello there');
const askedOfAzure = [];
for await (const item of azure.responses.inputItems.list(answered.id)) askedOfAzure.push(item.role);
same('its input items', askedOfAzure, ['user']);
above('its tokens', (await azure.responses.inputTokens.count({ model: 'sandbox', previous_response_id: answered.id })).input_tokens, 2);
await azure.responses.delete(answered.id);
same('status after its deletion', (await rejected("a deleted response of Azure's", azure.responses.retrieve(answered.id))).status, 404);

const azureFile = await azure.files.create({
  file: await toFile(Buffer.from(lines.join('\n').replaceAll('/v1/', '/')), 'requests.jsonl'), purpose: 'batch',
});
const azureBatch = await azure.batches.create({ input_file_id: azureFile.id, endpoint: '/chat/completions', completion_window: '24h' });
const azureEnded = await until(() => azure.batches.retrieve(azureBatch.id), (batch) => batch.completed_at);
same("counts of Azure's batch", azureEnded.request_counts.completed, 3);

const ids = [];
for await (const model of client.models.list()) ids.push(model.id);
same('models are listed', process.env.MODELS.split(',').filter((model) => !ids.includes(model)), []);
