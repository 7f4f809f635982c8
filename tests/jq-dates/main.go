// Writes table.json: what gojq, which OCM's agent uses, makes of expressions with dates. An error is
// null. Run it in this folder:
//
//	go mod tidy && go run . < cases.json > table.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/itchyny/gojq"
)

func main() {
	var expressions []string
	if err := json.NewDecoder(os.Stdin).Decode(&expressions); err != nil {
		panic(err)
	}
	table := [][2]any{}
	for _, expression := range expressions {
		query, err := gojq.Parse(expression)
		if err != nil {
			panic(expression + ": " + err.Error())
		}
		value, _ := query.Run(nil).Next()
		if _, failed := value.(error); failed {
			value = nil
		}
		table = append(table, [2]any{expression, value})
	}
	fmt.Println("[")
	for index, row := range table {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(row); err != nil {
			panic(err)
		}
		separator := ","
		if index == len(table)-1 {
			separator = ""
		}
		fmt.Println(strings.TrimSpace(text.String()) + separator)
	}
	fmt.Println("]")
}
