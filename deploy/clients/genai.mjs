// @google/genai: content whole and streamed, tools, structured output, embeddings, counts, models.
import { GoogleGenAI } from '#genai';
import { above, citySchema, eachModel, ends, headers, jsonQuestion, rejected, same, toolQuestion } from './check.mjs';

const client = new GoogleGenAI({
  apiKey: process.env.GEMINI_API_KEY, httpOptions: { baseUrl: process.env.GEMINI_BASE_URL, headers },
});

async function content(model) {
  const whole = await client.models.generateContent({ model, contents: 'hello there' });
  ends('text', whole.text, 'hello there');
  same('finish reason', whole.candidates[0].finishReason, 'STOP');
  const u = whole.usageMetadata;
  same('total tokens', u.totalTokenCount, u.promptTokenCount + u.candidatesTokenCount);
  let text = '', pieces = 0, last;
  for await (const chunk of await client.models.generateContentStream({ model, contents: 'one two three' })) {
    text += chunk.text ?? '';
    pieces++;
    last = chunk;
  }
  ends('streamed text', text, 'one two three');
  above('chunks', pieces, 1);
  above('tokens', last.usageMetadata?.totalTokenCount, 1);
  above('counted tokens', (await client.models.countTokens({ model, contents: 'eight bytes' })).totalTokens, 1);
}

async function chat(model) {
  const talk = client.chats.create({ model, config: { systemInstruction: 'be brief' } });
  await talk.sendMessage({ message: 'hello there' });
  ends('text of the second turn', (await talk.sendMessage({ message: 'one two three' })).text, 'one two three');
  same('turns', talk.getHistory().map((turn) => turn.role), ['user', 'model', 'user', 'model']);
}

async function tools(model) {
  const config = { tools: [{ functionDeclarations: [{ name: 'get_weather', parametersJsonSchema: citySchema }] }, { googleSearch: {} }] };
  const question = { role: 'user', parts: [{ text: toolQuestion }] };
  const asked = await client.models.generateContent({ model, contents: [question], config });
  const call = asked.functionCalls?.[0];
  same('tool', call?.name, 'get_weather');
  same('type of the argument', typeof call.args.city, 'string');
  const result = { role: 'user', parts: [{ functionResponse: { id: call.id, name: call.name, response: { output: 'sunny' } } }] };
  const told = await client.models.generateContent({ model, contents: [question, asked.candidates[0].content, result], config });
  above('text after the result', told.text?.length, 4);
}

async function schema(model) {
  const config = { responseMimeType: 'application/json', responseJsonSchema: citySchema };
  const parsed = JSON.parse((await client.models.generateContent({ model, contents: jsonQuestion, config })).text);
  same('type of the field', typeof parsed.city, 'string');
}

async function errors() {
  const missing = await rejected('an unknown model', client.models.generateContent({ model: 'no-such-model', contents: 'x' }));
  same('status', missing.status, 404);
  same('name of the status', JSON.parse(missing.message).error.status, 'NOT_FOUND');
}

await eachModel(content, chat, tools, schema, errors);

const vectors = await client.models.embedContent({ model: process.env.EMBEDDING_MODEL, contents: ['one', 'two'], config: { outputDimensionality: 8 } });
same('lengths of the vectors', vectors.embeddings.map((vector) => vector.values.length), [8, 8]);
const names = [];
for await (const model of await client.models.list()) names.push(model.name);
same('models are listed', process.env.MODELS.split(',').filter((model) => !names.includes(`models/${model}`)), []);
