// Command kubectl-yaml records what kubectl reads from each case of cases.json: it runs the decoder of
// kubectl's file reader over the input and prints the cases with the answers filled in.
//
//	go run . <cases.json >new.json && mv new.json cases.json
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Case is one input. Ours says how gitwork differs on purpose: a diagnostic's code, or "accepts".
type Case struct {
	Input     string            `json:"input"`
	Ours      string            `json:"ours,omitempty"`
	Why       string            `json:"why,omitempty"`
	Documents []json.RawMessage `json:"documents"`
	Error     string            `json:"error,omitempty"`
}

func main() {
	var cases []Case
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var out bytes.Buffer
	out.WriteString("[")
	for i, c := range cases {
		c.Documents, c.Error = []json.RawMessage{}, ""
		if err := read(c.Input, &c.Documents); err != nil {
			c.Error = err.Error()
		}
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if i > 0 {
			out.WriteString(",")
		}
		out.WriteString("\n")
		out.Write(bytes.TrimSpace(line.Bytes()))
	}
	out.WriteString("\n]\n")
	if _, err := os.Stdout.Write(out.Bytes()); err != nil {
		os.Exit(1)
	}
}

// read is kubectl's loop: k8s.io/cli-runtime/pkg/resource.StreamVisitor, then the conversion of numbers
// that an unstructured object gets.
func read(input string, documents *[]json.RawMessage) error {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(input), 4096)
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		raw.Raw = bytes.TrimSpace(raw.Raw)
		if len(raw.Raw) == 0 || bytes.Equal(raw.Raw, []byte("null")) {
			continue
		}
		var value interface{}
		if err := utiljson.Unmarshal(raw.Raw, &value); err != nil {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		*documents = append(*documents, text)
	}
}
