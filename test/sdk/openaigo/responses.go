package main

import (
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// respond does a job by /v1/responses.
func (r *result) respond(client *openai.Client, j job) error {
	params := responses.ResponseNewParams{
		Model: j.Model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)},
	}
	if j.Tools {
		params.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", citySchema, true)}
	}
	if j.Stream {
		return r.streamResponse(client, params)
	}
	response, err := client.Responses.New(context.Background(), params)
	if err != nil {
		return err
	}
	r.takeResponse(response)
	return nil
}

func (r *result) streamResponse(client *openai.Client, params responses.ResponseNewParams) error {
	stream := client.Responses.NewStreaming(context.Background(), params)
	defer func() { _ = stream.Close() }() // all has been read
	for stream.Next() {
		switch event := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			r.Text += event.Delta
		case responses.ResponseFunctionCallArgumentsDoneEvent:
			r.Tools = append(r.Tools, call{Arguments: event.Arguments}) // the name is in the whole response
		case responses.ResponseCompletedEvent:
			r.takeResponse(&event.Response)
		}
	}
	return stream.Err()
}

// takeResponse copies what a whole response says.
func (r *result) takeResponse(response *responses.Response) {
	r.Text, r.Tools = response.OutputText(), []call{}
	for _, item := range response.Output {
		if item.Type == "function_call" {
			function := item.AsFunctionCall()
			r.Tools = append(r.Tools, call{function.Name, function.Arguments})
		}
	}
	r.Finish, r.Model, r.Tokens = string(response.Status), response.Model, response.Usage.TotalTokens
}
