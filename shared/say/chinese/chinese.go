// Package chinese is the catalogue of all messages in simplified Chinese. Begin with Language.
//
// A file maps each English format of one room of the source to its translation. A rule of the tree checks that every message has
// exactly one translation, with the same verbs. The words are those of Alibaba Cloud's documentation: TERMS.md lists them, with their
// sources. Function programs must not import it: nobody reads their output.
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

// Language returns Chinese. The first call reads the catalogue.
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

// tight: full-width punctuation includes its own space, and Chinese words have none between them.
func tight(end, begin rune) bool {
	const wide = "，。；：！？、（）“”"
	return strings.ContainsRune(wide, end) || strings.ContainsRune(wide, begin) || unicode.Is(unicode.Han, end) && unicode.Is(unicode.Han, begin)
}
