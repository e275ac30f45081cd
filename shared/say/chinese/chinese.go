// Package chinese is the catalogue of everything that people read, in simplified Chinese.
//
// A file holds the formats of one room of the source: the English one, by which the message is
// known, and its twin. A rule of the tree compares both with the source, so that no sentence is
// without a twin, no twin without a sentence, and their verbs are the same. The words are those of
// Alibaba Cloud's documentation: TERMS.md lists them, with their sources.
//
// Programs of functions must not import it: they write records, which hold the messages, and
// nobody reads what they say.
package chinese

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"unicode"

	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed *.json
var files embed.FS

// Language returns Chinese. It reads the catalogue on the first call.
var Language = sync.OnceValue(func() *say.Language {
	l := &say.Language{Tag: "zh-CN", Twins: map[string]string{}, Tight: tight}
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		panic(fmt.Sprintf("list the catalogue: %v", err))
	}
	for _, name := range names {
		maps.Copy(l.Twins, read(name))
	}
	return l
})

// read reads a file of the catalogue.
func read(name string) map[string]string {
	data, err := files.ReadFile(name)
	twins := map[string]string{}
	if err == nil {
		err = json.Unmarshal(data, &twins)
	}
	if err != nil {
		panic(fmt.Sprintf("read the catalogue %s: %v", name, err))
	}
	return twins
}

// tight: full-width punctuation brings its own space, and nothing stands between Chinese words.
func tight(end, begin rune) bool {
	const wide = "，。；：！？、（）“”"
	return strings.ContainsRune(wide, end) || strings.ContainsRune(wide, begin) || unicode.Is(unicode.Han, end) && unicode.Is(unicode.Han, begin)
}
