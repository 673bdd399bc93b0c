package openai

// AppendModelList appends the answer to GET /v1/models for the given ids, in their order.
func AppendModelList(dst []byte, ids []string) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, id)
	}
	return append(dst, "]}"...)
}

// AppendModel appends the answer to GET /v1/models/{id}. Ids contain slashes. A logical model has no date of its own:
// created is 0.
func AppendModel(dst []byte, id string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendQuoted(dst, id)
	return append(dst, `,"object":"model","created":0,"owned_by":"spillway"}`...)
}
