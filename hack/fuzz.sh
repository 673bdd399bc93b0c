#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (30s), two at a time with one worker each; "make fuzz" calls it.
# FUZZ is a regular expression that picks targets by name. Each test binary is built once, and lists its own targets. This
# module's code alone is instrumented: "go test -fuzz" would compile all of Kubernetes anew for that. What is found is written to the testdata/fuzz of its package, to be committed with its fix; inputs that only
# reach new code stay in Go's cache, and the next run begins with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-30s}
cache=$(go env GOCACHE)/fuzz
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# Which packages to build is asked of their text: a test binary of each package would take minutes.
mapfile -t packages < <(grep -rl --include='*_test.go' '^func Fuzz' api cmd internal | xargs -n 1 dirname | sort -u)
targets=()
for package in "${packages[@]}"; do
  binary=$work/${package//\//-}.test
  go test -c -vet=off -gcflags="$(go list -m)/...=-d=libfuzzer" -o "$binary" "./$package"
  while read -r target; do
    targets+=("$package $binary $target")
  done < <(cd "$package" && "$binary" -test.list "${FUZZ:-^Fuzz}" | grep '^Fuzz' || true)
done

# fuzz PACKAGE BINARY TARGET runs one target, and says at its end how it went.
fuzz() {
  local log=$work/$3.log verdict=ok
  (cd "$1" && "$2" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime "$fuzztime" -test.parallel 1 \
    -test.fuzzcachedir "$cache/$(go list .)" -test.timeout 0 >"$log" 2>&1) || verdict=FAIL
  printf '%s\t%s %s: %s\n' "$verdict" "$1" "$3" "$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
  [[ $verdict == ok ]] || { cat "$log" && return 1; }
}

printf '%d targets, %s each\n' "${#targets[@]}" "$fuzztime"
failed=0
for target in "${targets[@]}"; do
  if (($(jobs -rp | wc -l) >= 2)); then
    wait -n || failed=1
  fi
  # shellcheck disable=SC2086 # the three words of a target
  fuzz $target &
done
while (($(jobs -p | wc -l) > 0)); do
  wait -n || failed=1
  jobs >/dev/null # forget those that have ended
done
exit "$failed"
