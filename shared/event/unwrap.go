package event

import "encoding/json"

// wraps are the keys under which tools keep a Kubernetes Event: searches, EventBridge, kube-eventer's sinks for SLS, Kafka and
// EventBridge (its v1.2.7), eventrouter, OpenTelemetry's collector.
var wraps = []string{"eventId", "_source", "EventValue", "event", "object", "body", "data"}

// Unwrap returns the Kubernetes Event in a JSON value, at most five levels deep, as an object or as text; nil if none is found.
func Unwrap(data []byte) json.RawMessage { return unwrap(data, 5) }

func unwrap(data []byte, levels int) json.RawMessage {
	var s string
	if json.Unmarshal(data, &s) == nil {
		data = []byte(s)
	}
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(data, &keys) // only an object has keys
	if keys["involvedObject"] != nil || keys["regarding"] != nil {
		return data
	}
	for _, key := range wraps {
		if levels > 1 && keys[key] != nil {
			if inner := unwrap(keys[key], levels-1); inner != nil {
				return inner
			}
		}
	}
	return nil
}
