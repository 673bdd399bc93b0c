import OpenAI from 'openai';
import { describe, prompt, run, weather } from './client.mjs';

const tools = [{
  type: 'function',
  function: { name: weather.name, description: weather.description, parameters: weather.schema },
}];

run(async (job, result) => {
  const client = new OpenAI({ baseURL: job.baseURL + '/v1', apiKey: 'sk-caller', maxRetries: job.retries });
  const request = { model: job.model, messages: [{ role: 'user', content: prompt }], ...(job.tools && { tools }) };
  let completion;
  if (job.stream) {
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    stream.on('content.delta', ({ delta }) => { result.text += delta; });
    stream.on('chunk', (chunk) => { result.reasoning += chunk.choices[0]?.delta?.reasoning_content ?? ''; });
    completion = await stream.finalChatCompletion();
  } else {
    completion = await client.chat.completions.create(request);
    result.reasoning = completion.choices[0].message.reasoning_content ?? '';
  }
  const { message, finish_reason: finish } = completion.choices[0];
  result.text = message.content ?? '';
  result.tools = (message.tool_calls ?? []).map((call) => ({ name: call.function.name, arguments: call.function.arguments }));
  result.finish = finish;
  result.model = completion.model;
  result.tokens = completion.usage?.total_tokens ?? 0;
}, describe);
