package sdk

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// vectorsTold is what embeddings answer with, in numbers that every encoding holds exactly.
var vectorsTold = [][]float32{{0.25, -1.5, 3}, {-0.0078125, 1e10, 0}}

// The dialect of embeddings, by the encoding that the SDK asks for: openai-node decodes base64 unless it is told otherwise.
var (
	embeddings = newEmbeddings("float", func(vector []float32) string {
		numbers, _ := json.Marshal(vector) // numbers always can
		return string(numbers)
	})
	embeddingsInBase64 = newEmbeddings("base64", func(vector []float32) string {
		raw, _ := binary.Append(nil, binary.LittleEndian, vector) // numbers always can
		return strconv.Quote(base64.StdEncoding.EncodeToString(raw))
	})
)

func newEmbeddings(format string, encode func(vector []float32) string) *dialect {
	var data []string
	for i, vector := range vectorsTold {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, encode(vector)))
	}
	return &dialect{
		suffix:    "/embeddings",
		asks:      fmt.Sprintf(`"encoding_format":%q`, format),
		errorBody: chat.errorBody,
		body: fmt.Sprintf(`{"object":"list","data":[%s],"model":%q,"usage":{"prompt_tokens":12,"total_tokens":12}}`,
			strings.Join(data, ","), physical),
	}
}
