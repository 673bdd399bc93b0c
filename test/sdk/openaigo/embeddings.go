package main

import (
	"context"

	"github.com/openai/openai-go/v3"
)

// embed does a job by /v1/embeddings.
func (r *result) embed(client *openai.Client, j job) error {
	answer, err := client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{
		Model:          j.Model,
		Input:          openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{prompt, "And in Rome?"}},
		EncodingFormat: openai.EmbeddingNewParamsEncodingFormatFloat,
	})
	if err != nil {
		return err
	}
	for _, one := range answer.Data {
		r.Vectors = append(r.Vectors, one.Embedding)
	}
	r.Model, r.Tokens = answer.Model, answer.Usage.TotalTokens
	return nil
}
