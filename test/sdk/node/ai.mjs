import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, jsonSchema, streamText, tool } from 'ai';
import { prompt, run, weather } from './client.mjs';

const tools = { [weather.name]: tool({ description: weather.description, inputSchema: jsonSchema(weather.schema) }) };

run(async (job, result) => {
  const provider = createOpenAICompatible({ name: 'spillway', baseURL: job.baseURL + '/v1', apiKey: 'sk-caller', includeUsage: true });
  const request = { model: provider(job.model), prompt, maxRetries: job.retries, ...(job.tools && { tools }) };
  if (job.stream) {
    await stream(request, result);
    return;
  }
  const answer = await generateText(request);
  result.text = answer.text;
  result.reasoning = answer.reasoningText ?? '';
  result.tools = answer.toolCalls.map(plainCall);
  result.finish = answer.finishReason;
  result.model = answer.response.modelId;
  result.tokens = answer.usage.totalTokens ?? 0;
}, describe);

async function stream(request, result) {
  const answer = streamText({ ...request, onError() {} }); // without it, errors are printed as well
  for await (const part of answer.fullStream) {
    switch (part.type) {
      case 'text-delta': result.text += part.text; break;
      case 'reasoning-delta': result.reasoning += part.text; break;
      case 'tool-call': result.tools.push(plainCall(part)); break;
      case 'finish-step': result.model = part.response.modelId; break;
      case 'finish':
        result.finish = part.finishReason;
        result.tokens = part.totalUsage.totalTokens ?? 0;
        break;
      case 'error': throw part.error; // this SDK's way to raise an exception in a stream
    }
  }
}

function plainCall(call) {
  return { name: call.toolName, arguments: JSON.stringify(call.input) };
}

// describe: an error in the stream is the object that stood in the event, as it is.
function describe(err) {
  return {
    class: err?.name ?? 'error part',
    status: err?.statusCode ?? 0,
    code: err?.data?.error?.code ?? err?.code ?? '',
    message: String(err?.message ?? err),
  };
}
