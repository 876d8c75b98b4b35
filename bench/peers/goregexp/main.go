// Command goregexp says what Go's regexp package makes of patterns: questions come in on standard input, one JSON
// object per line, and each gets an answer on standard output.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
)

type question struct {
	Pattern string   `json:"pattern"`
	Texts   []string `json:"texts"`
	// Stands in for every match.
	Template string `json:"template"`
}

type answer struct {
	// Why the pattern is refused; the rest is empty then.
	Error string `json:"error,omitempty"`
	// Names of the groups.
	Groups []string `json:"groups"`
	// For every text the matches in it, each as the offsets of its groups; -1 for a group that took no part.
	Matches [][][]int `json:"matches"`
	// The texts with all matches replaced.
	Replaced []string `json:"replaced"`
}

func ask(asked question) answer {
	re, err := regexp.Compile(asked.Pattern)
	if err != nil {
		return answer{Error: err.Error()}
	}
	said := answer{Groups: re.SubexpNames()}
	for _, text := range asked.Texts {
		said.Matches = append(said.Matches, re.FindAllStringSubmatchIndex(text, -1))
		said.Replaced = append(said.Replaced, re.ReplaceAllString(text, asked.Template))
	}
	return said
}

func run() error {
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	for in.More() {
		var asked question
		if err := in.Decode(&asked); err != nil {
			return fmt.Errorf("cannot read a question: %w", err)
		}
		if err := answers.Encode(ask(asked)); err != nil {
			return fmt.Errorf("cannot write an answer: %w", err)
		}
	}
	return out.Flush()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "goregexp:", err)
		os.Exit(1)
	}
}
