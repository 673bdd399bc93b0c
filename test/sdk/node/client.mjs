// What the clients have in common: jobs come in as lines of JSON, results go out as lines of JSON, all jobs at once.
import { createInterface } from 'node:readline';

export const prompt = 'What is the weather in Paris and in Tokyo?';

export const weather = {
  name: 'weather',
  description: 'The weather in a city.',
  schema: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
};

// run calls one(job, result) for each job. It fills in the result as the answer arrives, so that what came before an
// exception is kept; the exception is told as describe(err) does.
export function run(one, describe) {
  createInterface({ input: process.stdin }).on('line', async (line) => {
    const job = JSON.parse(line);
    const result = { id: job.id, text: '', reasoning: '', tools: [], finish: '', model: '', tokens: 0 };
    try {
      await one(job, result);
    } catch (err) {
      result.error = describe(err);
    }
    process.stdout.write(JSON.stringify(result) + '\n');
  });
}

// describe tells an exception of the SDKs of OpenAI and Anthropic, and of those that are built upon them.
export function describe(err) {
  return {
    class: err?.constructor?.name ?? typeof err,
    status: err?.status ?? 0,
    code: err?.code ?? err?.error?.error?.code ?? err?.error?.code ?? '',
    message: err?.error?.error?.message ?? String(err?.message ?? err), // the SDK of Anthropic has the whole body in message
  };
}
