package ccm

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Prefixes of the policies that ACK makes for the control plane nodes of a dedicated cluster.
const (
	controllerPolicy = "k8sMasterRolePolicy-Ccm-"
	mastersPolicy    = "k8sMasterRolePolicy-"
)

// WithActions returns the document of a RAM policy with one more statement that allows the actions.
func WithActions(document string, actions []string) (string, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return "", fmt.Errorf("it is not a JSON object: %w", err)
	}
	var statements []json.RawMessage
	if err := json.Unmarshal(doc["Statement"], &statements); err != nil {
		return "", fmt.Errorf("its Statement is not a list: %w", err)
	}
	var err error
	if doc["Statement"], err = json.Marshal(append(statements, json.RawMessage(allowing(actions)))); err != nil {
		return "", err
	}
	out, err := json.Marshal(doc)
	return string(out), err
}

func betterPolicy(name, other string) bool {
	if !strings.HasPrefix(name, mastersPolicy) {
		return false
	}
	if other == "" {
		return true
	}
	own, otherOwn := strings.HasPrefix(name, controllerPolicy), strings.HasPrefix(other, controllerPolicy)
	if own != otherOwn {
		return own
	}
	return name < other
}
