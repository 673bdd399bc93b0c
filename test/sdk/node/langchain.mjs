import { ChatOpenAI } from '@langchain/openai';
import { describe, prompt, run, weather } from './client.mjs';

const tools = [{
  type: 'function',
  function: { name: weather.name, description: weather.description, parameters: weather.schema },
}];

run(async (job, result) => {
  const model = new ChatOpenAI({
    model: job.model, apiKey: 'sk-caller', maxRetries: job.retries, configuration: { baseURL: job.baseURL + '/v1' },
  });
  const bound = job.tools ? model.bindTools(tools) : model;
  let message;
  if (job.stream) {
    for await (const chunk of await bound.stream(prompt)) {
      result.text += chunk.text;
      message = message === undefined ? chunk : message.concat(chunk);
    }
  } else {
    message = await bound.invoke(prompt);
  }
  result.text = message.text;
  result.reasoning = message.additional_kwargs.reasoning_content ?? '';
  result.tools = (message.tool_calls ?? []).map((call) => ({ name: call.name, arguments: JSON.stringify(call.args) }));
  result.finish = message.response_metadata.finish_reason ?? '';
  result.model = message.response_metadata.model_name ?? '';
  result.tokens = message.usage_metadata?.total_tokens ?? 0;
}, describe);
