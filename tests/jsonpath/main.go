// Writes table.json: what client-go's util/jsonpath answers to every path of cases.txt, used as OCM's work agent
// uses it (the path between braces, missing keys allowed). Run it in this folder:
//
//	go mod tidy && go run . < cases.txt > table.json
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// The object that the paths are followed in; numbers as in unstructured objects: int64 and float64.
var object = map[string]any{
	"kind": "Thing",
	"metadata": map[string]any{
		"name":        "web",
		"generation":  int64(7),
		"annotations": map[string]any{"a.b/c": "dotted", "x y": "spaced", "it's": "quoted", "": "empty"},
		"labels":      map[string]any{"app": "web"},
		"m-n":         map[string]any{"o_p": int64(1)},
	},
	"spec": map[string]any{
		"replicas": int64(3),
		"ratio":    float64(0.5),
		"whole":    float64(2),
		"paused":   false,
		"nothing":  nil,
		"text":     "",
		"list":     []any{int64(1), int64(2), int64(3), int64(4), int64(5)},
		"empty":    []any{},
		"nested":   []any{[]any{"a", "b"}, []any{"c"}, []any{}},
		"mixed":    []any{int64(1), "one", nil, true, float64(1.5), map[string]any{"a": int64(1)}, []any{int64(9)}},
		"words":    []any{"b", "a", "c", "é", "日"},
		"flags":    []any{true, false},
		"floats":   []any{float64(0.5), float64(2), float64(3.25)},
		"items": []any{
			map[string]any{"name": "one", "n": int64(1), "ok": true, "tags": []any{"x", "y"}, "f": float64(1)},
			map[string]any{"name": "two", "n": int64(2), "ok": false, "tags": []any{}, "f": float64(2.5)},
			map[string]any{"name": "three", "n": int64(3), "tags": []any{"z"}},
			map[string]any{"name": nil, "n": int64(-4), "deep": map[string]any{"n": int64(5), "name": "deep"}},
		},
		"strange": []any{map[string]any{"k": "a)b"}, map[string]any{"k": "it's"}, map[string]any{"k": "a=b"}, map[string]any{"k": "q\"q"}},
	},
	"status": map[string]any{
		"phase": "Running",
		"conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": "AllFine"},
			map[string]any{"type": "Progressing", "status": "False"},
		},
		"nil": nil,
	},
}

type outcome struct {
	Path string `json:"path"`
	// "parse" or "find" when client-go refuses; else empty.
	Error string `json:"error,omitempty"`
	// The values of each part of the template.
	Found [][]any `json:"found,omitempty"`
	// Whether the order is the same in every run.
	Random bool `json:"random,omitempty"`
}

func run(path string) (out outcome) {
	out.Path = path
	finder := jsonpath.New("table").AllowMissingKeys(true)
	if err := finder.Parse(fmt.Sprintf("{%s}", path)); err != nil {
		out.Error = "parse"
		return out
	}
	results, err := finder.FindResults(object)
	if err != nil {
		out.Error = "find"
		return out
	}
	for _, group := range results {
		values := []any{}
		for _, value := range group {
			values = append(values, plain(value))
		}
		out.Found = append(out.Found, values)
	}
	return out
}

// Bytes of a text are numbers, like any.
func plain(value reflect.Value) any {
	if value.Kind() == reflect.Uint8 {
		return int64(value.Uint())
	}
	return dotted(value.Interface())
}

// Floating-point numbers keep a dot in JSON: the reader of the table must tell 2.0 from 2.
func dotted(value any) any {
	switch value := value.(type) {
	case float64:
		number := strconv.FormatFloat(value, 'g', -1, 64)
		if !strings.ContainsAny(number, ".e") {
			number += ".0"
		}
		return json.RawMessage(number)
	case map[string]any:
		out := map[string]any{}
		for key, field := range value {
			out[key] = dotted(field)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for index, item := range value {
			out[index] = dotted(item)
		}
		return out
	default:
		return value
	}
}

func text(value any) string {
	bytes, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(bytes)
}

func sorted(out outcome) {
	for _, group := range out.Found {
		sort.Slice(group, func(a, b int) bool { return text(group[a]) < text(group[b]) })
	}
}

func main() {
	var outcomes []outcome
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		line := scanner.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		// Lines are JSON strings where the path has characters that a line cannot hold.
		path := line
		if strings.HasPrefix(line, "json:") {
			if err := json.Unmarshal([]byte(line[5:]), &path); err != nil {
				panic(err)
			}
		}
		first := run(path)
		// Maps come in random order: 50 runs show it.
		for range 50 {
			again := run(path)
			first.Random = first.Random || text(first.Found) != text(again.Found)
			if first.Error != again.Error {
				panic("the error of " + path + " depends on the order")
			}
		}
		if first.Random {
			sorted(first)
		}
		outcomes = append(outcomes, first)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	fmt.Println("{\"object\":")
	if err := encoder.Encode(dotted(object)); err != nil {
		panic(err)
	}
	fmt.Println(",\"outcomes\":[")
	for index, out := range outcomes {
		if index > 0 {
			fmt.Print(",")
		}
		if err := encoder.Encode(out); err != nil {
			panic(err)
		}
	}
	fmt.Println("]}")
}
