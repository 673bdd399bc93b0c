package openai

// AppendModelList appends the answer to GET /v1/models for the given ids, in their order.
func AppendModelList(dst []byte, ids []string) []byte { panic("todo") }

// AppendModel appends the answer to GET /v1/models/{id}. Ids contain slashes.
func AppendModel(dst []byte, id string) []byte { panic("todo") }
