// What the scripts share. Base URLs and keys come in the variables that each client knows (OPENAI_BASE_URL,
// OPENAI_API_KEY, ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY).
import { inspect, isDeepStrictEqual } from 'node:util';

// headers are sent to the gateway, whose service tokens belong to no organization; at the edge there are none.
export const headers = process.env.ORGANIZATION ? { 'X-Organization-Id': process.env.ORGANIZATION } : {};

export function same(what, got, want) {
  if (!isDeepStrictEqual(got, want)) throw new Error(`${what}: ${inspect(got)}, want ${inspect(want)}`);
}

export function ends(what, text, end) {
  if (typeof text !== 'string' || !text.endsWith(end)) throw new Error(`${what}: ${inspect(text)}, want one that ends with ${inspect(end)}`);
}

export function above(what, got, least) {
  if (!(got > least)) throw new Error(`${what}: ${inspect(got)}, want more than ${least}`);
}

// rejected returns the error of a call that must fail.
export async function rejected(what, promise) {
  const result = await promise.then((value) => ({ value }), (error) => ({ error }));
  if (!result.error) throw new Error(`${what}: ${inspect(result.value)}, want an error`);
  return result.error;
}

// until polls until what it gets is done, and returns that.
export async function until(get, done) {
  for (let polls = 0; polls < 1200; polls++) {
    const got = await get();
    if (done(got)) return got;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`after a minute: ${inspect(await get())}`);
}

// eachModel runs the checks with each of the models that MODELS lists, and reports the first failure.
export async function eachModel(...checks) {
  for (const model of process.env.MODELS.split(',')) {
    for (const check of checks) {
      try {
        await check(model);
      } catch (error) {
        console.error(`${check.name} with ${model}: ${error.stack ?? error}`);
        process.exit(1);
      }
    }
  }
}

export const citySchema = {
  type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false,
};

// jsonQuestion makes the fakes answer with an object that fits citySchema; the sandbox does so by the schema.
export const jsonQuestion = process.env.JSON_QUESTION;

// thinkingQuestion makes the fakes think and call get_weather; to the result they think again, and say that it is warm.
// They refuse thinking that isn't their own. The sandbox doesn't know the question.
export const thinkingQuestion = process.env.THINKING_QUESTION;
export const thinks = (model) => model !== 'sandbox';

// toolQuestion makes the fakes and the sandbox call the tool.
export const toolQuestion = 'use tool get_weather';
