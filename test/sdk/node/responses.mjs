import OpenAI from 'openai';
import { describe, prompt, run, weather } from './client.mjs';

const tools = [{
  type: 'function', name: weather.name, description: weather.description, parameters: weather.schema, strict: true,
}];

run(async (job, result) => {
  const client = new OpenAI({ baseURL: job.baseURL + '/v1', apiKey: 'sk-caller', maxRetries: job.retries });
  const request = { model: job.model, input: prompt, ...(job.tools && { tools }) };
  let response;
  if (job.stream) {
    const stream = client.responses.stream(request);
    stream.on('response.output_text.delta', ({ delta }) => { result.text += delta; });
    response = await stream.finalResponse();
  } else {
    response = await client.responses.create(request);
  }
  result.text = response.output_text;
  result.tools = response.output.filter((item) => item.type === 'function_call')
    .map((call) => ({ name: call.name, arguments: call.arguments }));
  result.finish = response.status;
  result.model = response.model;
  result.tokens = response.usage?.total_tokens ?? 0;
}, describe);
