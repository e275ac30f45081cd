package rampermission

import (
	"encoding/json"
	"fmt"
)

// allow returns the document with one more statement that allows the actions.
// What it held stays as it was.
func allow(document string, actions []string) (string, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return "", fmt.Errorf("it is no JSON object: %w", err)
	}
	var statements []json.RawMessage
	if err := json.Unmarshal(doc["Statement"], &statements); err != nil {
		return "", fmt.Errorf("its Statement is no list: %w", err)
	}
	added, err := json.Marshal(struct {
		Effect   string
		Action   []string
		Resource []string
	}{"Allow", actions, []string{"*"}})
	if err != nil {
		return "", err
	}
	if doc["Statement"], err = json.Marshal(append(statements, added)); err != nil {
		return "", err
	}
	out, err := json.Marshal(doc)
	return string(out), err
}
