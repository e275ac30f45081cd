package config

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// A Tree knows the line of each field of a YAML document of any kind.
type Tree struct{ root *yaml.Node }

// Parse returns the tree of a document; it is empty if the text is not YAML.
func Parse(text []byte) Tree {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return Tree{}
	}
	return Tree{doc.Content[0]}
}

// Line returns the line, from 1, of the field with this path, or of its deepest existing parent. An index names an entry of a list.
func (t Tree) Line(path ...string) int {
	if t.root == nil {
		return 1
	}
	at, line := t.root, t.root.Line
	for _, name := range path {
		key, value := child(at, name)
		if value == nil {
			break
		}
		at, line = value, key.Line
	}
	return line
}

// child returns the entry of a node with this name; for a list, the entry is its own key.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.AliasNode:
		return child(n.Alias, name)
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	return nil, nil
}
