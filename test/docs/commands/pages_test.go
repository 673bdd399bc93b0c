package commands

import (
	"regexp"
	"strings"
)

// script is one block of commands of a page.
type script struct {
	line     int // of the page, where the block begins
	commands []string
}

var fence = regexp.MustCompile("^ *```([A-Za-z]*)")

// scripts returns the blocks of a page that hold commands: shell blocks whole, and of consoles the lines with a prompt.
// A manifest of roles counts as one that is applied, because later commands need its accounts; of a table of cron the commands
// count, with the environment that cron has.
func scripts(page string) []script {
	var all []script
	var block *script
	var language string
	var text []string
	for i, line := range strings.Split(page, "\n") {
		mark := fence.FindStringSubmatch(line)
		switch {
		case mark == nil && block != nil:
			text = append(text, line)
		case mark != nil && block == nil:
			block, language, text = &script{line: i + 1}, mark[1], nil
		case mark != nil:
			if block.commands = commandsOf(language, text); len(block.commands) > 0 {
				all = append(all, *block)
			}
			block = nil
		}
	}
	return all
}

func commandsOf(language string, lines []string) []string {
	switch language {
	case "sh":
		return joined(lines)
	case "console":
		var prompted []string
		for _, line := range lines {
			if command, found := strings.CutPrefix(strings.TrimSpace(line), "$ "); found {
				prompted = append(prompted, command)
			}
		}
		return prompted
	case "cron":
		var due []string
		for _, line := range lines {
			if job := cronJob.FindStringSubmatch(line); job != nil {
				due = append(due, "unset KUBECONFIG; "+job[1])
			}
		}
		return due
	case "yaml":
		if text := strings.Join(lines, "\n"); strings.Contains(text, "\nkind: RoleBinding\n") {
			return []string{"kubectl apply -f - <<'EOF'\n" + text + "\nEOF"}
		}
	}
	return nil
}

var cronJob = regexp.MustCompile(`^(?:[0-9*][^ ]* +){5}(.+)`)

var heredoc = regexp.MustCompile(`<<'?([A-Z]+)'?`)

// joined puts the lines of one command together: those that go on after a backslash, and here-documents.
func joined(lines []string) []string {
	var commands []string
	var until string // the mark that ends a here-document
	goesOn := false
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case until != "":
			commands[len(commands)-1] += "\n" + line
			if trimmed == until {
				until = ""
			}
			continue
		case goesOn:
			commands[len(commands)-1] += " " + strings.TrimSuffix(trimmed, `\`)
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
			continue
		default:
			commands = append(commands, strings.TrimSuffix(trimmed, `\`))
		}
		goesOn = strings.HasSuffix(trimmed, `\`)
		if mark := heredoc.FindStringSubmatch(trimmed); mark != nil {
			until = mark[1]
		}
	}
	return commands
}
