// The AI SDK over @ai-sdk/openai, which speaks the Responses API unless told otherwise.
import { createOpenAI } from '#ai-sdk-openai';
import { generateText, Output, stepCountIs, streamText, tool } from '#ai';
import { z } from 'zod';
import { above, eachModel, ends, headers, jsonQuestion, same, thinkingQuestion, thinks, toolQuestion } from './check.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const openai = createOpenAI({ headers });
const tools = {
  get_weather: tool({ description: 'the weather', inputSchema: z.object({ city: z.string() }), execute: async () => 'sunny' }),
};

async function generates(model) {
  const result = await generateText({ model: openai(model), prompt: toolQuestion, tools, stopWhen: stepCountIs(3) });
  ends('text', result.text, 'sunny');
  same('steps', result.steps.length, 2);
  same('finish reason', result.finishReason, 'stop');
  above('tokens', result.totalUsage.totalTokens, 2);
}

async function streams(model) {
  const stream = streamText({ model: openai(model), prompt: toolQuestion, tools, stopWhen: stepCountIs(3), onError: ({ error }) => { throw error; } });
  let text = '';
  for await (const delta of stream.textStream) text += delta;
  ends('text', text, 'sunny');
  same('steps', (await stream.steps).length, 2);
}

// Since version 7, response.messages has the last step's messages only.
const messagesOf = (result) => result.responseMessages ?? result.response.messages;

// The second turn refers to the first answer by its item's id.
async function turns(model) {
  const messages = [{ role: 'user', content: 'one' }];
  const first = await generateText({ model: openai(model), messages });
  messages.push(...messagesOf(first), { role: 'user', content: 'two' });
  const second = await generateText({ model: openai(model), messages, include: { requestBody: true } });
  ends('text', second.text, 'two');
  same('the second turn has a reference', second.request.body.input.some((item) => item.type === 'item_reference'), true);
}

// The second step holds the thinking of the first, and the next question that of both.
async function thinking(model) {
  if (!thinks(model)) return;
  const messages = [{ role: 'user', content: thinkingQuestion }];
  const first = await generateText({ model: openai(model), messages, tools, stopWhen: stepCountIs(3) });
  same('text', first.text, 'It is warm');
  same('thinking', first.steps.map((step) => step.reasoningText), ['I need the weather.', 'It is sunny there.']);
  messages.push(...messagesOf(first), { role: 'user', content: 'and now?' });
  same('text of the next turn', (await generateText({ model: openai(model), messages, tools })).text, 'It is warm');
}

async function objects(model) {
  const result = await generateText({ model: openai(model), prompt: jsonQuestion, output: Output.object({ schema: z.object({ city: z.string() }) }) });
  same('type of the field', typeof result.output.city, 'string');
}

async function chat(model) {
  const result = await generateText({ model: openai.chat(model), prompt: toolQuestion, tools, stopWhen: stepCountIs(3) });
  ends('text', result.text, 'sunny');
}

await eachModel(generates, streams, turns, thinking, objects, chat);
