package sim

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const xmlHead = `<?xml version="1.0" encoding="UTF-8"?>`

// toXML converts a JSON answer as the gateway does: a field becomes an element, a list's entry an element with the list's name.
func toXML(root string, answer []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic("sim: an answer that is not JSON: " + err.Error())
	}
	var b strings.Builder
	b.WriteString(xmlHead)
	element(&b, root, v)
	return []byte(b.String())
}

func element(b *strings.Builder, name string, v any) {
	if list, ok := v.([]any); ok {
		for _, e := range list {
			element(b, name, e)
		}
		return
	}
	b.WriteString("<" + name + ">")
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			element(b, k, v[k])
		}
	case nil:
	default:
		_ = xml.EscapeText(b, []byte(fmt.Sprint(v))) // a Builder never fails
	}
	b.WriteString("</" + name + ">")
}
