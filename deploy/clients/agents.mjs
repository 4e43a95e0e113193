// @openai/agents: a run with a tool, whole and streamed.
import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { eachModel, ends, headers, same, thinkingQuestion, thinks, toolQuestion } from './check.mjs';

const client = new OpenAI({ defaultHeaders: headers });
const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client }), tracingDisabled: true });

function agent(model) {
  const weather = tool({ name: 'get_weather', description: 'the weather', parameters: z.object({ city: z.string() }), execute: async () => 'sunny' });
  return new Agent({ name: 'forecaster', instructions: 'be brief', model, tools: [weather] });
}

async function runs(model) {
  const result = await runner.run(agent(model), toolQuestion);
  ends('output', result.finalOutput, 'sunny');
  same('calls', result.rawResponses.length, 2);
}

async function streams(model) {
  const result = await runner.run(agent(model), toolQuestion, { stream: true });
  let text = '';
  for await (const event of result) {
    if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') text += event.data.delta;
  }
  await result.completed;
  ends('output', result.finalOutput, 'sunny');
  same('streamed text', text, result.finalOutput);
}

async function thinking(model) {
  if (!thinks(model)) return;
  const result = await runner.run(agent(model), thinkingQuestion);
  same('output', result.finalOutput, 'It is warm');
  const items = result.newItems.map((item) => item.type);
  same('items', items.filter((type) => type !== 'reasoning_item'), ['tool_call_item', 'tool_call_output_item', 'message_output_item']);
  same('items of reasoning', items.filter((type) => type === 'reasoning_item').length >= 2, true);
}

// The second run sends only what is new.
async function continues(model) {
  const first = await runner.run(agent(model), 'one');
  const second = await runner.run(agent(model), 'two', { previousResponseId: first.lastResponseId });
  ends('output', second.finalOutput, 'two');
  const items = await client.responses.inputItems.list(second.lastResponseId, { order: 'asc' });
  same('roles of the stored items', items.data.map((item) => item.role), ['user', 'assistant', 'user']);
}

await eachModel(runs, streams, thinking, continues);
