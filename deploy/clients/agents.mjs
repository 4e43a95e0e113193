// @openai/agents: a run with a tool, whole and streamed.
import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { eachModel, ends, headers, same, toolQuestion } from './check.mjs';

const runner = new Runner({
  modelProvider: new OpenAIProvider({ openAIClient: new OpenAI({ defaultHeaders: headers }) }), tracingDisabled: true,
});

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

await eachModel(runs, streams);
