// @anthropic-ai/sdk: messages whole and streamed, tools, counts, batches.
import Anthropic from '#anthropic';
import { above, citySchema, eachModel, ends, headers, rejected, same, thinkingQuestion, thinks, toolQuestion, until } from './check.mjs';

const client = new Anthropic({ defaultHeaders: headers });
const max_tokens = 100;

async function messages(model) {
  const ask = (content) => ({ model, max_tokens, messages: [{ role: 'user', content }] });
  const whole = await client.messages.create(ask('hello there'));
  ends('text', whole.content[0].text, 'hello there');
  same('stop reason', whole.stop_reason, 'end_turn');
  let deltas = 0;
  const stream = client.messages.stream(ask('one two three')).on('text', () => { deltas++; });
  const final = await stream.finalMessage();
  ends('streamed text', final.content[0].text, 'one two three');
  above('deltas', deltas, 1);
  above('output tokens', final.usage.output_tokens, 0);
  above('counted tokens', (await client.messages.countTokens({ model, messages: ask('eight bytes').messages })).input_tokens, 1);
}

async function tools(model) {
  const body = {
    model, max_tokens, messages: [{ role: 'user', content: toolQuestion }],
    tools: [{ name: 'get_weather', description: 'the weather', input_schema: citySchema }],
  };
  for (const asked of [await client.messages.create(body), await client.messages.stream(body).finalMessage()]) {
    same('stop reason', asked.stop_reason, 'tool_use');
    const use = asked.content.find((block) => block.type === 'tool_use');
    same('tool', use?.name, 'get_weather');
    same('type of the argument', typeof use.input.city, 'string');
    const told = await client.messages.create({
      ...body,
      messages: [...body.messages, { role: 'assistant', content: asked.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'sunny' }] }],
    });
    ends('text after the result', told.content[0].text, 'sunny');
  }
}

// Thinking goes back as it came, whichever vendor made it.
async function thinking(model) {
  if (!thinks(model)) return;
  const body = {
    model, max_tokens: 2000, thinking: { type: 'enabled', budget_tokens: 1024 }, messages: [{ role: 'user', content: thinkingQuestion }],
    tools: [{ name: 'get_weather', description: 'the weather', input_schema: citySchema }],
  };
  for (const asked of [await client.messages.create(body), await client.messages.stream(body).finalMessage()]) {
    same('blocks', asked.content.map((block) => block.type), ['thinking', 'tool_use']);
    same('thinking', asked.content[0].thinking, 'I need the weather.');
    const told = await client.messages.create({
      ...body,
      messages: [...body.messages, { role: 'assistant', content: asked.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: asked.content[1].id, content: 'sunny' }] }],
    });
    same('text', told.content.find((block) => block.type === 'text')?.text, 'It is warm');
  }
}

async function errors() {
  const missing = await rejected('an unknown model', client.messages.create({ model: 'no-such-model', max_tokens, messages: [{ role: 'user', content: 'x' }] }));
  same('class', missing.constructor.name, 'NotFoundError');
  same('type', missing.error?.error?.type, 'not_found_error');
}

// A batch is made, polled, read at the address that it says, listed, and deleted; another one is cancelled.
async function batches(model) {
  const requests = ['one', 'two', 'three'].map((content) => ({ custom_id: content, params: { model, max_tokens, messages: [{ role: 'user', content }] } }));
  const made = await client.messages.batches.create({ requests });
  same('processing', made.request_counts.processing, 3);
  const ended = await until(() => client.messages.batches.retrieve(made.id), (batch) => batch.processing_status === 'ended');
  same('succeeded', ended.request_counts.succeeded, 3);
  const ids = [];
  for await (const { custom_id, result } of await client.messages.batches.results(made.id)) {
    ids.push(custom_id);
    ends('text of a result', result.message.content[0].text, custom_id);
    same('model of a result', result.message.model, model);
  }
  same('custom ids', ids.sort(), ['one', 'three', 'two']);
  const listed = [];
  for await (const batch of client.messages.batches.list({ limit: 1 })) listed.push(batch.id);
  same('the batch is listed', listed.includes(made.id), true);
  // It can be deleted once the gateway has deleted the vendor's.
  const deleted = await until(() => client.messages.batches.delete(made.id).catch((error) => error), (it) => it.status !== 409);
  same('deleted', deleted, { id: made.id, type: 'message_batch_deleted' });
  same('status after the deletion', (await rejected('a deleted batch', client.messages.batches.retrieve(made.id))).status, 404);

  const other = await client.messages.batches.create({ requests });
  await client.messages.batches.cancel(other.id);
  const cancelled = await until(() => client.messages.batches.retrieve(other.id), (batch) => batch.processing_status === 'ended');
  same('canceled', cancelled.request_counts.canceled, 3);
}

await eachModel(messages, tools, thinking, errors);
await batches(process.env.ANTHROPIC_BATCH_MODEL);
