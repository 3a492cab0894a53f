// Package tenure_test checks the documentation of the packages of this module.
package tenure_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// read returns the documentation of the package in a folder, with its examples.
func read(t *testing.T, folder string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s has no files: %v", folder, err)
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	found, err := doc.NewFromFiles(files, parsed, folder)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// undescribed returns the exported names without a comment, and those without an example.
func undescribed(found *doc.Package) (withoutComment, withoutExample []string) {
	look := func(name, comment string, examples ...*doc.Example) {
		if comment == "" {
			withoutComment = append(withoutComment, name)
		}
		if len(examples) == 0 {
			withoutExample = append(withoutExample, name)
		}
	}
	look("package "+found.Name, found.Doc, found.Examples...)
	for _, function := range found.Funcs {
		look(function.Name, function.Doc, function.Examples...)
	}
	for _, kind := range found.Types {
		examples := kind.Examples
		for _, function := range kind.Funcs {
			look(function.Name, function.Doc, function.Examples...)
		}
		for _, method := range kind.Methods {
			// The example of a type may show its methods, and that of a method its type.
			look(kind.Name+"."+method.Name, method.Doc, append(slices.Clone(kind.Examples), method.Examples...)...)
			examples = append(examples, method.Examples...)
		}
		look(kind.Name, kind.Doc, examples...)
	}
	for _, value := range slices.Concat(found.Consts, found.Vars) {
		for _, spec := range value.Decl.Specs {
			// A group has one comment for all of its names, or one for each.
			named := spec.(*ast.ValueSpec)
			if named.Names[0].IsExported() {
				look(named.Names[0].Name, value.Doc+named.Doc.Text(), &doc.Example{})
			}
		}
	}
	return withoutComment, withoutExample
}

func TestEveryExportedNameIsDescribed(t *testing.T) {
	for _, folder := range []string{"api/v1alpha1", "election", "multiclusterlease"} {
		if without, _ := undescribed(read(t, folder)); len(without) > 0 {
			t.Errorf("%s: without a comment: %s", folder, strings.Join(without, "; "))
		}
	}
}

func TestEveryTypeAndFunctionOfElectionHasAnExample(t *testing.T) {
	if _, without := undescribed(read(t, "election")); len(without) > 0 {
		t.Errorf("without an example: %s", strings.Join(without, "; "))
	}
}

func TestANameWithoutACommentOrAnExampleIsFound(t *testing.T) {
	folder := t.TempDir()
	text := "// Package p is one.\npackage p\n\ntype Bare struct{}\n\n// Add adds.\nfunc Add() {}\n\nfunc (Bare) Close() {}\n"
	if err := os.WriteFile(filepath.Join(folder, "p.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	comment, example := undescribed(read(t, folder))
	slices.Sort(comment)
	slices.Sort(example)
	if !slices.Equal(comment, []string{"Bare", "Bare.Close"}) || !slices.Equal(example, []string{"Add", "Bare", "Bare.Close", "package p"}) {
		t.Errorf("found %v and %v", comment, example)
	}
}
