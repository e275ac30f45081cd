package sim

import (
	"reflect"
	"time"
)

// Clone returns a deep copy. Empty values are nil in it, as in a World that was read from a file.
func (w *World) Clone() *World {
	var c World
	deepCopy(reflect.ValueOf(&c).Elem(), reflect.ValueOf(w).Elem())
	return &c
}

var timeType = reflect.TypeFor[time.Time]()

func deepCopy(to, from reflect.Value) {
	if from.Type() == timeType { // its fields are private, and it shares nothing
		to.Set(reflect.ValueOf(from.Interface().(time.Time).Round(0)))
		return
	}
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			deepCopy(to.Field(i), from.Field(i))
		}
	case reflect.Slice:
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			deepCopy(to.Index(i), from.Index(i))
		}
	case reflect.Map:
		if from.Len() == 0 {
			return
		}
		to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
		for all := from.MapRange(); all.Next(); {
			v := reflect.New(from.Type().Elem()).Elem()
			deepCopy(v, all.Value())
			to.SetMapIndex(all.Key(), v)
		}
	case reflect.Pointer, reflect.Interface:
		if from.IsNil() {
			return
		}
		v := reflect.New(from.Elem().Type()).Elem()
		deepCopy(v, from.Elem())
		if from.Kind() == reflect.Pointer {
			v = v.Addr()
		}
		to.Set(v)
	default:
		to.Set(from)
	}
}
