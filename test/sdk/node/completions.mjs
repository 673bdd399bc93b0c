import OpenAI from 'openai';
import { describe, prompt, run } from './client.mjs';

run(async (job, result) => {
  const client = new OpenAI({ baseURL: job.baseURL + '/v1', apiKey: 'sk-caller', maxRetries: job.retries });
  const request = { model: job.model, prompt };
  if (!job.stream) {
    take(await client.completions.create(request), result);
    return;
  }
  const stream = await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    take(chunk, result);
  }
}, describe);

// take adds what a completion or a chunk of one says: they are the same type.
function take(completion, result) {
  result.text += completion.choices[0]?.text ?? '';
  result.finish = completion.choices[0]?.finish_reason ?? result.finish;
  result.model = completion.model;
  result.tokens = completion.usage?.total_tokens ?? 0;
}
