// Command pages writes pages in protobuf into a directory, as files NAME.TURN: those of Prometheus's client library for
// Go, such as it does not write, and others by chance.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"
)

type page []*dto.MetricFamily

// Pages of one target that follow each other.
type sequence struct {
	name  string
	pages []page
}

func (s sequence) write(directory string) error {
	for turn, families := range s.pages {
		var body bytes.Buffer
		for _, family := range families {
			if _, err := protodelim.MarshalTo(&body, family); err != nil {
				return fmt.Errorf("cannot encode %s of %s: %w", family.GetName(), s.name, err)
			}
		}
		file := filepath.Join(directory, fmt.Sprintf("%s.%03d", s.name, turn))
		if err := os.WriteFile(file, body.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Writes everything into a directory: sequences by chance begin with a seed, and there are so many of them.
func run(directory string, seed, count int) error {
	library, err := ofLibrary()
	if err != nil {
		return err
	}
	all := append([]sequence{library}, byHand()...)
	for number := seed; number < seed+count; number++ {
		all = append(all, byChance(int64(number)))
	}
	for _, one := range all {
		if err := one.write(directory); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: pages DIRECTORY SEED COUNT"))
	}
	seed, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err)
	}
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail(err)
	}
	if err := run(os.Args[1], seed, count); err != nil {
		fail(err)
	}
}
