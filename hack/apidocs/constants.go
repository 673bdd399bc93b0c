package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// constants is one const block of the API: words that appear in status.
type constants struct {
	title string // its comment
	words []constant
}

type constant struct{ value, meaning string }

// readConstants reads the const blocks of a file of the API. Single constants, which are not documented as a list, are added to
// the block before them.
func readConstants(path string) ([]constants, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var groups []constants
	for _, decl := range file.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		words, err := wordsOf(block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if block.Lparen.IsValid() || len(groups) == 0 {
			groups = append(groups, constants{title: oneLine(block.Doc.Text())})
		}
		last := &groups[len(groups)-1]
		last.words = append(last.words, words...)
	}
	return groups, nil
}

func wordsOf(block *ast.GenDecl) ([]constant, error) {
	var words []constant
	for _, spec := range block.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok || len(value.Values) != 1 {
			return nil, fmt.Errorf("a const block holds something else than name = value")
		}
		literal, ok := value.Values[0].(*ast.BasicLit)
		if !ok {
			return nil, fmt.Errorf("%s is not a literal", value.Names[0].Name)
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return nil, err
		}
		comment := value.Doc.Text()
		if comment == "" {
			comment = value.Comment.Text()
		}
		if comment == "" {
			comment = block.Doc.Text()
		}
		words = append(words, constant{text, plain(value.Names[0].Name, comment)})
	}
	return words, nil
}

// plain takes the name in Go from the beginning of its comment: "ReasonPending surfaces when ..." says "When ...".
func plain(name, comment string) string {
	text := oneLine(comment)
	rest, found := strings.CutPrefix(text, name+" ")
	if !found {
		return text
	}
	rest = strings.TrimPrefix(rest, "surfaces ")
	if rest == "" {
		return rest
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

func (c *constants) write(out *strings.Builder) {
	title, _, _ := strings.Cut(c.title, ".")
	fmt.Fprintf(out, "\n### %s\n\n| word | meaning |\n|---|---|\n", title)
	for _, word := range c.words {
		fmt.Fprintf(out, "| `%s` | %s |\n", word.value, cell(word.meaning))
	}
}
