#!/bin/sh
# Fails where the working tree differs from the commit, and shows how. `make verify` calls it after all that writes: what was generated,
# formatted or tidied differently than committed shows here.
set -eu
cd "$(dirname "$0")/.."

if ! git rev-parse --git-dir >/dev/null 2>&1; then
	echo "verify: no git here, so nothing to compare the generated files with" >&2
	exit 1
fi
dirty=$(git status --porcelain)
if [ -n "$dirty" ]; then
	git --no-pager diff HEAD
	echo "verify: the working tree differs from the commit; run make generate and commit the result:" >&2
	echo "$dirty" >&2
	exit 1
fi
