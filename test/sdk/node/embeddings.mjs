import OpenAI from 'openai';
import { describe, prompt, run } from './client.mjs';

run(async (job, result) => {
  const client = new OpenAI({ baseURL: job.baseURL + '/v1', apiKey: 'sk-caller', maxRetries: job.retries });
  // Without encoding_format the SDK asks for base64, and decodes it.
  const answer = await client.embeddings.create({ model: job.model, input: [prompt, 'And in Rome?'] });
  result.vectors = answer.data.map(({ embedding }) => embedding);
  result.model = answer.model;
  result.tokens = answer.usage.total_tokens;
}, describe);
