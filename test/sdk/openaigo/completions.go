package main

import (
	"context"

	"github.com/openai/openai-go/v3"
)

// completeText does a job by /v1/completions.
func (r *result) completeText(client *openai.Client, j job) error {
	params := openai.CompletionNewParams{
		Model:  openai.CompletionNewParamsModel(j.Model),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)},
	}
	if j.Stream {
		return r.streamText(client, params)
	}
	completion, err := client.Completions.New(context.Background(), params)
	if err != nil {
		return err
	}
	r.addText(completion)
	return nil
}

func (r *result) streamText(client *openai.Client, params openai.CompletionNewParams) error {
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Completions.NewStreaming(context.Background(), params)
	defer func() { _ = stream.Close() }() // all has been read
	for stream.Next() {
		chunk := stream.Current()
		r.addText(&chunk)
	}
	return stream.Err()
}

// addText adds what a completion or a chunk of one says: they are the same type.
func (r *result) addText(completion *openai.Completion) {
	r.Model, r.Tokens = completion.Model, completion.Usage.TotalTokens
	for _, choice := range completion.Choices {
		r.Text += choice.Text
		if choice.FinishReason != "" {
			r.Finish = string(choice.FinishReason)
		}
	}
}
