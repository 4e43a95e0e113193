// @langchain/openai over both APIs of OpenAI.
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';
import { above, eachModel, ends, headers, same, thinkingQuestion, thinks, toolQuestion } from './check.mjs';

const weather = tool(async () => 'sunny', { name: 'get_weather', description: 'the weather', schema: z.object({ city: z.string() }) });

function over(useResponsesApi) {
  const check = async (model) => {
    const chat = new ChatOpenAI({ model, useResponsesApi, maxRetries: 0, configuration: { defaultHeaders: headers } });
    ends('text', (await chat.invoke('hello there')).text, 'hello there');
    let text = '', pieces = 0;
    for await (const piece of await chat.stream('one two three')) {
      text += piece.text;
      pieces++;
    }
    ends('streamed text', text, 'one two three');
    above('pieces', pieces, 2);

    const messages = [new HumanMessage(toolQuestion)];
    const asked = await chat.bindTools([weather]).invoke(messages);
    same('tool', asked.tool_calls?.[0]?.name, 'get_weather');
    const result = await weather.invoke(asked.tool_calls[0]);
    same('result', result instanceof ToolMessage, true);
    const told = await chat.bindTools([weather]).invoke([...messages, asked, result]);
    ends('text after the result', told.text, 'sunny');
    if (useResponsesApi && thinks(model)) {
      const question = [new HumanMessage(thinkingQuestion)];
      const thought = await chat.bindTools([weather]).invoke(question);
      const last = await chat.bindTools([weather]).invoke([...question, thought, await weather.invoke(thought.tool_calls[0])]);
      same('text after thinking', last.text, 'It is warm');
    }
  };
  Object.defineProperty(check, 'name', { value: useResponsesApi ? 'responses' : 'chat' });
  return check;
}

await eachModel(over(false), over(true));
