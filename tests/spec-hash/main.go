// Writes table.json: the spec hashes that OCM's work agent notes on Services and CSIDrivers. Its
// library decodes a manifest into the struct of k8s.io/api, encodes the spec of the struct, and
// hashes that. Run it in this folder:
//
//	go mod tidy && go run . < cases.json > table.json
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// One manifest, with the encoded spec and its hash.
type row struct {
	Manifest json.RawMessage `json:"manifest"`
	Spec     string          `json:"spec"`
	Hash     string          `json:"hash"`
}

func spec(manifest []byte, decoder runtime.Decoder) ([]byte, error) {
	object, _, err := decoder.Decode(manifest, nil, nil)
	if err != nil {
		return nil, err
	}
	switch typed := object.(type) {
	case *corev1.Service:
		return json.Marshal(typed.Spec)
	case *storagev1.CSIDriver:
		return json.Marshal(typed.Spec)
	}
	return nil, fmt.Errorf("%T has no spec hash", object)
}

func run() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	var manifests []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&manifests); err != nil {
		return err
	}
	table := make([]row, 0, len(manifests))
	for _, manifest := range manifests {
		encoded, err := spec(manifest, decoder)
		if err != nil {
			return fmt.Errorf("%s: %w", manifest, err)
		}
		sum := sha256.Sum256(encoded)
		table = append(table, row{manifest, string(encoded), hex.EncodeToString(sum[:])})
	}
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	output.SetIndent("", "  ")
	return output.Encode(table)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
