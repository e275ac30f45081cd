package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

var unreachable = map[string]string{
	"net/...":           "a method of shared/cloud reads what is outside",
	"os/...":            "the engine hands a class all it needs in the Case",
	"syscall/...":       "the engine hands a class all it needs in the Case",
	"io/ioutil":         "the engine hands a class all it needs in the Case",
	"log":               "class code returns what there is to say",
	"math/rand/...":     "the same case must lead to the same plan",
	"crypto/rand":       "the same case must lead to the same plan",
	"plugin":            "a class is a value",
	"unsafe":            "a class is a value",
	"runtime/...":       "a class is a value",
	"database/sql/...":  "a method of shared/cloud reads what is outside",
	"crypto/tls/...":    "a method of shared/cloud reads what is outside",
	"testing/...":       "it serves tests",
	"html/template/...": "findings are plain text",
}

var pure = []string{"net/netip"}

var clock = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
}

func ofClass(f *file) bool { return matches(f.dir(), "functions/*") && f.ast != nil && !f.test() }

// classCode checks that classes read and decide, and reach nothing.
func classCode(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if !ofClass(f) {
			continue
		}
		for _, p := range sorted(f.imports()) {
			for _, pattern := range sorted(unreachable) {
				if matches(p, pattern) && !slices.Contains(pure, p) {
					out = append(out, tr.at(f.imports()[p].Pos(), "class code must not import %s: %s", p, unreachable[pattern]))
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				out = append(out, tr.at(n.Pos(), "class code starts no goroutine: the engine runs many cases at once"))
			case *ast.SelectorExpr:
				for _, p := range sorted(clock) {
					if x, ok := n.X.(*ast.Ident); ok && x.Name == f.local(p) && slices.Contains(clock[p], n.Sel.Name) {
						out = append(out, tr.at(n.Pos(), "class code must not call %s.%s: the time is Case.Now, and waiting is Plan.Wait", p, n.Sel.Name))
					}
				}
			}
			return true
		})
	}
	return out
}

// Limits of the lines of Go of a class without its tests: of the largest class, and of the median.
const (
	largestClass = 300
	medianClass  = 120
)

var second = []string{"ask.go", "causes.go", "plan.go", "read.go"}

// classSizes checks that classes stay small and their files have one of a few names. Knowledge of the controller and the cloud
// beyond one decision belongs in shared/ccm.
func classSizes(tr *tree) []string {
	var out []string
	lines := map[string]int{}
	for _, f := range tr.files {
		name := path.Base(f.dir())
		if !ofClass(f) || name == "doctor" {
			continue
		}
		lines[name] += bytes.Count(f.text, []byte("\n"))
		if base := path.Base(f.name); base != name+".go" && !slices.Contains(second, base) {
			out = append(out, fmt.Sprintf("%s: name it %s.go or one of %s, as the other classes do", f.name, name, strings.Join(second, ", ")))
		}
	}
	sizes := slices.Sorted(maps.Values(lines))
	for _, name := range sorted(lines) {
		if n := lines[name]; n > largestClass {
			out = append(out, fmt.Sprintf("functions/%s: %d lines, and at most %d: move what is known to shared/ccm", name, n, largestClass))
		}
	}
	if len(sizes) == 0 {
		return out
	}
	if n := sizes[len(sizes)/2]; n > medianClass {
		out = append(out, fmt.Sprintf("functions: half of the classes have %d lines or more, and the median is to be at most %d", n, medianClass))
	}
	return out
}

func classFolders(tr *tree) []string {
	holds := map[string][]*file{}
	for _, f := range tr.files {
		parts := strings.Split(f.name, "/")
		if parts[0] == "functions" && len(parts) > 2 && !slices.Contains([]string{"cmd", "doctor", "examples"}, parts[1]) {
			holds[parts[1]] = append(holds[parts[1]], f)
		}
	}
	var out []string
	for _, name := range sorted(holds) {
		dir := "functions/" + name
		has := func(pattern string) *file {
			i := slices.IndexFunc(holds[name], func(f *file) bool {
				ok, _ := path.Match(pattern, f.name)
				return ok
			})
			if i < 0 {
				return nil
			}
			return holds[name][i]
		}
		if has(dir+"/"+name+".go") == nil {
			out = append(out, dir+": no "+name+".go: a class folder holds a file of its own name; make new CLASS=… starts one")
		}
		if page := has(dir + "/doc.md"); page == nil {
			out = append(out, dir+": no doc.md: say what is wrong, what is done and what is asked")
		} else if !strings.HasPrefix(string(page.text), "# ") {
			out = append(out, dir+"/doc.md: its first line is the class's title: begin it with \"# \"")
		}
		if has(dir+"/testdata/*.txtar") == nil {
			out = append(out, dir+": no testdata/*.txtar: write one scenario for each way out of Diagnose")
		}
	}
	return out
}

func grants(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		pkg := f.local(module + "/shared/grant")
		if pkg == "" {
			continue
		}
		isGrant := func(e ast.Expr) bool {
			sel, ok := e.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Grant" {
				return false
			}
			x, ok := sel.X.(*ast.Ident)
			return ok && x.Name == pkg
		}
		complain := func(lit *ast.CompositeLit) {
			if len(lit.Elts) > 0 {
				out = append(out, tr.at(lit.Pos(), "a permission is spelled out here: name it in shared/grant/names.go, and use the name"))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if isGrant(lit.Type) {
				complain(lit)
			}
			if list, ok := lit.Type.(*ast.ArrayType); ok && isGrant(list.Elt) {
				for _, e := range lit.Elts {
					if e, ok := e.(*ast.CompositeLit); ok && e.Type == nil {
						complain(e)
					}
				}
			}
			return true
		})
	}
	return out
}
