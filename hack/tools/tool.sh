#!/bin/sh
# Prints the path of a large development tool, built if need be: hack/tools/tool.sh golangci-lint
# Where a folder has several tools, the second argument says which: hack/tools/tool.sh prometheus promtool
#
# Each such tool has a folder here with a module of its own, which pins its version and keeps its dependencies away from
# those of the other tools. A file "tags" in it has build tags. "go tool" links anew whenever Go's build cache has been trimmed, which takes minutes; the binary
# is small, so it is kept by its version and Go's in ${XDG_CACHE_HOME:-~/.cache}/spillway/tools.
set -eu
folder=${1:?usage: tool.sh FOLDER [NAME]}
name=${2:-$folder}
cd "$(dirname "$0")/$folder"
tags=$(cat tags 2>/dev/null || true)
export GOWORK=off CGO_ENABLED=0

found=$(go list -tags "$tags" -f '{{.ImportPath}} {{.Module.Version}}' tool | grep "/$name ")
package=${found% *}
version=${found#* }
dir=${XDG_CACHE_HOME:-$HOME/.cache}/spillway/tools/$name-$version-$(go env GOVERSION)-$(go env GOOS)-$(go env GOARCH)

if [ ! -x "$dir/$name" ]; then
	echo "tools: building $name $version, once; it takes three to seven minutes on two cores" >&2
	mkdir -p "$dir"
	temp=$(mktemp -d "$dir/.building-XXXXXX")
	trap 'rm -rf "$temp"' EXIT
	trap 'exit 130' INT TERM
	go build -trimpath -tags "$tags" -ldflags '-s -w' -o "$temp/$name" "$package" >&2
	mv "$temp/$name" "$dir/$name" # in one step: two builds at a time end in one whole file
fi
echo "$dir/$name"
