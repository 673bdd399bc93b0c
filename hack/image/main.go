package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	reference "github.com/google/go-containerregistry/pkg/name"
)

func main() {
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run packs each of the binaries that args name and prints the paths of the files that it wrote.
func run(args []string) error {
	set := flag.NewFlagSet("image", flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprintln(set.Output(), "Usage: image [flags] BINARY...\n\nPacks each BINARY into OUT/spillway-NAME.tar, the image REGISTRY/spillway-NAME:VERSION.")
		set.PrintDefaults()
	}
	version := set.String("version", "unknown", "tag of the images")
	registry := set.String("registry", "ghcr.io/spillway-dev", "registry and path in front of the images' names")
	arch := set.String("arch", runtime.GOARCH, "architecture that the binaries were built for, as Go names it")
	out := set.String("out", ".", "folder for the images")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return errors.New("no binary to pack: name at least one")
	}
	created, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, binary := range set.Args() {
		name := filepath.Base(binary)
		tag, err := reference.NewTag(fmt.Sprintf("%s/spillway-%s:%s", *registry, name, *version), reference.StrictValidation)
		if err != nil {
			return err
		}
		p := program{name: name, binary: binary, tag: tag, arch: *arch, created: created}
		file := filepath.Join(*out, "spillway-"+name+".tar")
		if err := p.write(file); err != nil {
			return fmt.Errorf("pack %s: %w", binary, err)
		}
		fmt.Println(file)
	}
	return nil
}

// sourceDate reads the time that reproducible builds agree on; none is 1970.
func sourceDate(text string) (time.Time, error) {
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %q", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
