package functions

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"

	"github.com/lbremedy/lbremedy/shared/say"
)

// chinese are the Chinese texts of classes and of the doctor. They are embedded here to keep languages out of the programs of functions.
//
//go:embed */*.zh.*
var chinese embed.FS

// ClassPage returns the page of a class in a language, or the English one.
func ClassPage(l *say.Language, class, english string) string {
	return page(l, folder(class)+"/doc", english)
}

// CheckPage returns the page of a check of the doctor in a language, or the English one.
func CheckPage(l *say.Language, check, english string) string {
	return page(l, "doctor/"+folder(check), english)
}

func folder(id string) string { return strings.ReplaceAll(id, "-", "") }

func page(l *say.Language, name, english string) string {
	if l == nil || l.Tag != "zh-CN" {
		return english
	}
	data, err := chinese.ReadFile(name + ".zh.md")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return english
	case err != nil:
		panic(fmt.Sprintf("read the page %s: %v", name, err))
	}
	return string(data)
}

// Chinese adds the Chinese sentences in the folders of classes, say.zh.json, to a language.
func Chinese(base func() *say.Language) func() *say.Language {
	return sync.OnceValue(func() *say.Language { return with(base(), chinese) })
}

func with(base *say.Language, folders fs.FS) *say.Language {
	l := *base
	l.Twins = maps.Clone(base.Twins)
	names, err := fs.Glob(folders, "*/say.zh.json")
	if err != nil {
		panic(fmt.Sprintf("list the sentences of the classes: %v", err))
	}
	for _, name := range names {
		data, err := fs.ReadFile(folders, name)
		twins := map[string]string{}
		if err == nil {
			err = json.Unmarshal(data, &twins)
		}
		if err != nil {
			panic(fmt.Sprintf("read %s: %v", name, err))
		}
		maps.Copy(l.Twins, twins)
	}
	return &l
}
