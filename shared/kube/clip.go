package kube

import (
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// clip keeps the first KiB of a text.
func clip(s string) string { return clipped(s, 1<<10, false) }

// clipped keeps the first n bytes of a text, and with ends also the last n.
func clipped(s string, n int, ends bool) string {
	if len(s) <= n || ends && len(s) <= 2*n {
		return s
	}
	first, last := n, len(s)-n
	for first < len(s) && !utf8.RuneStart(s[first]) {
		first++
	}
	if !ends {
		return strings.Clone(s[:first])
	}
	for last > 0 && !utf8.RuneStart(s[last]) {
		last--
	}
	return s[:first] + " […] " + s[last:]
}

// weight returns roughly how much memory a value takes: a small object may be a large struct, and a map's entry takes more than its text.
func weight(v reflect.Value) int {
	n := int(v.Type().Size())
	switch v.Kind() {
	case reflect.String:
		n += v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n += weight(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return n + v.Len()
		}
		for i := range v.Len() {
			n += weight(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += 48 + weight(it.Key()) + weight(it.Value())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return n // its zone is shared
		}
		for i := range v.NumField() {
			f := v.Field(i)
			n += weight(f) - int(f.Type().Size())
		}
	}
	return n
}
