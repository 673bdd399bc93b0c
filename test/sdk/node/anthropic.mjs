import Anthropic from '@anthropic-ai/sdk';
import { describe, prompt, run, weather } from './client.mjs';

const tools = [{ name: weather.name, description: weather.description, input_schema: weather.schema }];

run(async (job, result) => {
  const client = new Anthropic({ baseURL: job.baseURL, apiKey: 'sk-caller', maxRetries: job.retries });
  const request = {
    model: job.model, max_tokens: 100, messages: [{ role: 'user', content: prompt }], ...(job.tools && { tools }),
  };
  let message;
  if (job.stream) {
    const stream = client.messages.stream(request);
    stream.on('text', (text) => { result.text += text; });
    message = await stream.finalMessage();
  } else {
    message = await client.messages.create(request);
  }
  const of = (type) => message.content.filter((block) => block.type === type);
  result.text = of('text').map((block) => block.text).join('');
  result.reasoning = of('thinking').map((block) => block.thinking).join('');
  result.tools = of('tool_use').map((block) => ({ name: block.name, arguments: JSON.stringify(block.input) }));
  result.finish = message.stop_reason ?? '';
  result.model = message.model;
  result.tokens = message.usage.input_tokens + message.usage.output_tokens;
}, describe);
