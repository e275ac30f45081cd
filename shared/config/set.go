package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Set returns a YAML file with another value of the field at a path, which may be new; nil
// removes the field. The order of the other fields and the comments stay; empty lines go.
func Set(text []byte, value any, path ...string) ([]byte, error) {
	var doc, becomes yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, unreadable(text, err)
	}
	if err := becomes.Encode(value); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	if doc.Kind == 0 { // nothing but comments, which belong to no field
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, HeadComment: string(bytes.TrimSpace(text))}}}
	}
	at := doc.Content[0]
	for i, name := range path {
		if at.Tag == "!!null" {
			*at = yaml.Node{Kind: yaml.MappingNode, HeadComment: at.HeadComment}
		}
		if at.Kind != yaml.MappingNode {
			return nil, errors.New("it is no list of fields")
		}
		found := field(at, name)
		if found < 0 {
			if value == nil {
				return text, nil
			}
			key := &yaml.Node{}
			key.SetString(name)
			at.Content = append(at.Content, key, &yaml.Node{Kind: yaml.MappingNode})
			found = len(at.Content) - 1
		}
		switch {
		case i < len(path)-1:
			at = at.Content[found]
		case value == nil:
			at.Content = slices.Delete(at.Content, found-1, found+1)
		default:
			at.Content[found] = &becomes
		}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), nil
}

// field returns where in a mapping the value of a field is; -1: nowhere.
func field(in *yaml.Node, name string) int {
	for i := 0; i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == name {
			return i + 1
		}
	}
	return -1
}
