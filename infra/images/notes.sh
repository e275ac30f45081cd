#!/usr/bin/env bash
# Prints what the CHANGELOG.md of this folder says of a version: the text below its heading, which names the day.
set -euo pipefail
version=$1

fail() {
	echo "notes: $1" >&2
	exit 1
}

heading=$(grep -m 1 -E "^## ${version//./\\.}( |\$)" CHANGELOG.md) ||
	fail "CHANGELOG.md has no section $version: add one, \"## $version - \" and the day, with what is new"
[[ $heading =~ ^"## $version - "[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || fail "\"$heading\" in CHANGELOG.md names no day: write \"## $version - \" and the day"
text=$(awk -v heading="$heading" '/^##/ { on = 0 } on; $0 == heading { on = 1 }' CHANGELOG.md)
text=${text#"${text%%[!$'\n']*}"}
[ -n "$text" ] || fail "the section $version of CHANGELOG.md is empty: say what is new"
printf '%s\n' "$text"
