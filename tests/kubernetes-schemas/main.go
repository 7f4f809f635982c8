// Writes src/schemas/kubernetes.txt: the kinds and types of the last six Kubernetes minors, from
// the Go modules k8s.io/kubernetes. See README.md for the format.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// The newest patch of each minor, oldest first.
var versions = []string{
	"v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3",
}

// A set of minors, one bit for each of versions.
type minors uint8

const all = minors(1<<6 - 1)

type schema struct {
	Ref                  string             `json:"$ref"`
	AllOf                []schema           `json:"allOf"`
	OneOf                []schema           `json:"oneOf"`
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Required             []string           `json:"required"`
	Kinds                []groupVersionKind `json:"x-kubernetes-group-version-kind"`
}

type groupVersionKind struct{ Group, Version, Kind string }

type resource struct {
	Name, Kind string
	Namespaced bool
	Verbs      []string
	Group      *string
}

type kind struct {
	groupVersionKind
	plural     string
	namespaced bool
	typeName   string
}

type field struct{ name, shape, enum string }

type table struct {
	kinds  map[kind]minors
	types  map[string]minors
	fields map[string]map[field]minors
}

func main() {
	log.SetFlags(0)
	made := table{map[kind]minors{}, map[string]minors{}, map[string]map[field]minors{}}
	for index, version := range versions {
		made.add(download(version), minors(1)<<index)
	}
	out := os.Stdout
	if len(os.Args) > 1 {
		file, err := os.Create(os.Args[1])
		check(err)
		defer file.Close()
		out = file
	}
	made.print(out)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The folder of the module k8s.io/kubernetes of a version.
func download(version string) string {
	output, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version).Output()
	check(err)
	var module struct{ Dir string }
	check(json.Unmarshal(output, &module))
	return module.Dir
}

func read(path string, into any) {
	text, err := os.ReadFile(path)
	check(err)
	check(json.Unmarshal(text, into))
}

func (t *table) add(folder string, at minors) {
	enums := readEnums(filepath.Join(folder, "pkg/generated/openapi/zz_generated.openapi.go"))
	schemas := map[string]*schema{}
	files, err := filepath.Glob(filepath.Join(folder, "api/openapi-spec/v3/*.json"))
	check(err)
	for _, file := range files {
		var document struct {
			Components struct{ Schemas map[string]*schema }
		}
		read(file, &document)
		for name, found := range document.Components.Schemas {
			schemas[name] = found
		}
	}
	types := map[groupVersionKind]string{}
	for name, found := range schemas {
		// DeleteOptions and WatchEvent are of every group.
		if len(found.Kinds) == 1 {
			types[found.Kinds[0]] = name
		}
	}
	needed := map[string]bool{}
	for _, one := range readKinds(folder) {
		name, ok := types[one.groupVersionKind]
		if !ok {
			continue
		}
		one.typeName = short(name)
		t.kinds[one] |= at
		need(name, schemas, needed)
	}
	for name := range needed {
		t.addType(name, schemas[name], schemas, enums, at)
	}
}

// The kinds that clients can create.
func readKinds(folder string) []kind {
	files, err := filepath.Glob(filepath.Join(folder, "api/discovery/ap*__v*.json"))
	check(err)
	var kinds []kind
	for _, file := range files {
		var list struct {
			GroupVersion string
			Resources    []resource
		}
		read(file, &list)
		group, version, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group, version = "", list.GroupVersion
		}
		for _, one := range list.Resources {
			if strings.Contains(one.Name, "/") {
				continue
			}
			names := groupVersionKind{group, version, one.Kind}
			kinds = append(kinds, kind{names, one.Name, one.Namespaced, ""})
		}
	}
	return kinds
}

// Adds a type and all types that it refers to, down to those that are values.
func need(name string, schemas map[string]*schema, needed map[string]bool) {
	if needed[name] || shapeOfType(name, schemas[name]) != "" {
		return
	}
	needed[name] = true
	for _, one := range schemas[name].Properties {
		for _, reference := range references(one) {
			need(reference, schemas, needed)
		}
	}
}

func references(one *schema) []string {
	var found []string
	if one == nil {
		return nil
	}
	if one.Ref != "" {
		found = append(found, strings.TrimPrefix(one.Ref, "#/components/schemas/"))
	}
	for _, part := range one.AllOf {
		found = append(found, references(&part)...)
	}
	found = append(found, references(one.Items)...)
	return append(found, references(one.AdditionalProperties)...)
}

func (t *table) addType(
	name string, one *schema, schemas map[string]*schema, enums map[string]string, at minors,
) {
	typeName := short(name)
	t.types[typeName] |= at
	if t.fields[typeName] == nil {
		t.fields[typeName] = map[field]minors{}
	}
	required := map[string]bool{}
	for _, name := range one.Required {
		required[name] = true
	}
	for name, property := range one.Properties {
		shape, marked := shapeOf(property, schemas), name
		if required[name] {
			marked += "!"
		}
		enum := enums[enumKey(typeName, name)]
		t.fields[typeName][field{marked, shape, enum}] |= at
	}
}

// The name of a type without what all of them have.
func short(name string) string {
	for _, prefix := range []string{
		"io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg.",
		"io.k8s.apiextensions-apiserver.pkg.apis.", "io.k8s.kube-aggregator.pkg.apis.",
	} {
		if rest, found := strings.CutPrefix(name, prefix); found {
			return rest
		}
	}
	log.Fatalf("unknown prefix: %s", name)
	return ""
}

// The shape of a type that is a value; empty for one with fields.
func shapeOfType(name string, one *schema) string {
	last := name[strings.LastIndex(name, ".")+1:]
	switch last {
	case "Quantity":
		return "quantity"
	case "IntOrString":
		return "int-or-string"
	case "Time":
		return "time"
	case "MicroTime":
		return "micro-time"
	case "Duration":
		return "duration"
	case "JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray":
		return last
	}
	if len(one.Properties) > 0 {
		return ""
	}
	return shapeOf(one, nil)
}

func shapeOf(one *schema, schemas map[string]*schema) string {
	if found := references(&schema{Ref: one.Ref, AllOf: one.AllOf}); len(found) == 1 {
		if shape := shapeOfType(found[0], schemas[found[0]]); shape != "" {
			return shape
		}
		return short(found[0])
	}
	switch {
	case one.Type == "array":
		return "list " + shapeOf(one.Items, schemas)
	case one.Type == "object" && one.AdditionalProperties != nil:
		return "map " + shapeOf(one.AdditionalProperties, schemas)
	case one.Type == "object":
		return "object"
	case one.Type == "string" && one.Format == "byte":
		return "bytes"
	case one.Type == "string" && one.Format == "date-time":
		return "time"
	case one.Type == "string":
		return "string"
	case one.Type == "boolean":
		return "boolean"
	case one.Type == "integer" || one.Type == "number":
		return one.Format
	case one.Type == "" && len(one.OneOf) == 0:
		return "any"
	}
	log.Fatalf("unknown shape: %+v", one)
	return ""
}

var (
	functionLine = regexp.MustCompile(`^func schema_(\w+)\(`)
	propertyLine = regexp.MustCompile(`^\t{5}"([^"]+)": \{`)
	enumLine     = regexp.MustCompile(`Enum: +\[\]interface\{\}\{(.*)\},`)
)

// The values of the fields that have an enum, which only the generated Go code has.
func readEnums(path string) map[string]string {
	text, err := os.ReadFile(path)
	check(err)
	found := map[string]string{}
	var function, property string
	for _, line := range strings.Split(string(text), "\n") {
		if match := functionLine.FindStringSubmatch(line); match != nil {
			parts := strings.Split(match[1], "_")
			function = strings.Join(parts[max(0, len(parts)-3):], ".")
		} else if match := propertyLine.FindStringSubmatch(line); match != nil {
			property = match[1]
		} else if match := enumLine.FindStringSubmatch(line); match != nil {
			var values []string
			check(json.Unmarshal([]byte("["+match[1]+"]"), &values))
			sort.Strings(values)
			found[function+"/"+property] = strings.Join(values, "|")
		}
	}
	return found
}

func enumKey(typeName, property string) string {
	parts := strings.Split(typeName, ".")
	return strings.Join(parts[max(0, len(parts)-3):], ".") + "/" + property
}

func (t *table) print(out *os.File) {
	fmt.Fprintln(out, "# Written by tests/kubernetes-schemas; not to be edited. Its README.md has the format.")
	var names []string
	for _, version := range versions {
		names = append(names, strings.Join(strings.Split(version[1:], ".")[:2], "."))
	}
	fmt.Fprintln(out, "minors", strings.Join(names, " "))
	var lines []string
	for one, at := range t.kinds {
		scope := "cluster"
		if one.namespaced {
			scope = "namespaced"
		}
		lines = append(lines, fmt.Sprintf("kind %s/%s %s %s %s %s%s",
			one.Group, one.Version, one.Kind, one.plural, scope, one.typeName, suffix(at, all)))
	}
	sort.Strings(lines)
	for name, at := range t.types {
		lines = append(lines, t.typeLines(name, at))
	}
	start := len(t.kinds)
	sort.Strings(lines[start:])
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
}

func (t *table) typeLines(name string, at minors) string {
	var lines []string
	for one, of := range t.fields[name] {
		line := fmt.Sprintf(" %s %s", one.name, one.shape)
		if one.enum != "" {
			line += " =" + one.enum
		}
		lines = append(lines, line+suffix(of, at))
	}
	sort.Strings(lines)
	head := "type " + name + suffix(at, all)
	return strings.Join(append([]string{head}, lines...), "\n")
}

// The minors as a hexadecimal set, where they are not all of those of the parent.
func suffix(at, parent minors) string {
	if at == parent {
		return ""
	}
	return fmt.Sprintf(" @%x", uint8(at))
}
