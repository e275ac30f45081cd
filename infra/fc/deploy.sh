#!/usr/bin/env bash
# Deploys the functions to Function Compute: see "infra/fc/deploy.sh --help".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

help() {
	cat <<-'TEXT'
		Usage: infra/fc/deploy.sh [flags]

		Says what a deployment would do: it renders the functions with the variables of this
		shell, holds them to infra/fc/schema.json, checks the zips against their checksums,
		and compares with what is deployed where that can be reached. Nothing changes
		without --apply.

		  --runtime NAME   custom.debian12 (the default) or go1
		  --class CLASS    this class alone; may be given several times
		  --apply          deploy
	TEXT
}

die() {
	printf '%s\n' "deploy-fc: $1" >&2
	exit 1
}

file=s.yaml apply='' classes=()
while [ $# -gt 0 ]; do
	case $1 in
	--help | -h) help && exit 0 ;;
	--apply) apply=yes && shift && continue ;;
	--runtime | --class) [ $# -gt 1 ] && [ -n "$2" ] || die "$1 needs a value" ;;
	*) die "unknown flag $1: see --help" ;;
	esac
	case $1:$2 in
	--class:*) classes+=("$2") ;;
	--runtime:custom.debian12) file=s.yaml ;;
	--runtime:go1) file=infra/fc/go1.yaml ;;
	*) die "--runtime is custom.debian12 or go1, not $2" ;;
	esac
	shift 2
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plain() { grep -v 'not recommended to run the command as root' || true; }

[ ${#classes[@]} -gt 0 ] || while read -r class; do classes+=("$class"); done < <(sed -n '/^resources:/,$ s/^  \([a-z0-9-]*\):$/\1/p' "$file")

zips=${LBREMEDY_FC_ZIPS:-bin/fc}
[ -e "$zips/SHA256SUMS" ] || die "$zips/SHA256SUMS is missing: build the zips first, with make build-fc"
LBREMEDY_FC_ZIPS=$(cd "$zips" && pwd)
export LBREMEDY_FC_ZIPS

infra/fc/s.sh preview -t "$file" -o json >"$work/preview" 2>&1 || {
	plain <"$work/preview" >&2
	die "$file can't be rendered: set the variables that infra/fc/README.md lists"
}
sed -n '/^{/,$p' "$work/preview" >"$work/preview.json"

# What would be deployed, one function a line, with the zip's digest.
node - "$work/preview.json" "$LBREMEDY_FC_ZIPS" "${classes[@]}" >"$work/table" <<'JS' || die 'the functions and the zips do not fit together: see above'
const fs = require('fs');
const path = require('path');
const { createHash } = require('crypto');

const [file, zips, ...only] = process.argv.slice(2);
const functions = JSON.parse(fs.readFileSync(file, 'utf8')).resources;
const sums = {};
for (const line of fs.readFileSync(path.join(zips, 'SHA256SUMS'), 'utf8').trim().split('\n')) {
  const [sum, name] = line.split(/ +/);
  sums[name] = sum;
}
let bad = false;
const wrong = (text) => { console.error(text); bad = true; };
for (const one of only) if (!functions[one]) wrong(`there is no class ${one}: functions/README.md lists them`);
for (const [name, { props }] of Object.entries(functions)) {
  if (!only.includes(name)) continue;
  const zip = path.basename(props.code);
  const at = path.join(zips, zip);
  if (!sums[zip] || !fs.existsSync(at)) {
    wrong(`${at} is missing: build it with make build-fc`);
    continue;
  }
  const sum = createHash('sha256').update(fs.readFileSync(at)).digest('hex');
  if (sum !== sums[zip]) wrong(`${at} is not what SHA256SUMS says: build it again with make build-fc`);
  console.log([props.functionName, props.runtime, props.region, props.role, `${props.memorySize} MB`, `sha256:${sum.slice(0, 12)}`].join('  '));
}
process.exit(bad ? 1 : 0);
JS

# The check is ours alone; the stub stands in for the component for it.
S_HOME=$work/home LBREMEDY_FC_COMPONENT=$PWD/infra/fc/stub infra/fc/s.sh verify -t "$file" >"$work/verify" 2>&1 || {
	plain <"$work/verify" >&2
	die "$file is not what infra/fc/schema.json says: correct the variables that are named above"
}

tool() { # a command of the tool, for each of the chosen functions
	local class
	for class in "${classes[@]}"; do infra/fc/s.sh "$class" "$@" -t "$file" || return; done
}

if [ -n "$apply" ]; then
	cat "$work/table"
	tool deploy --assume-yes
	exit
fi
echo "These functions would be deployed from $file:"
cat "$work/table"
echo
if tool plan --assume-yes >"$work/plan" 2>&1; then
	echo 'Against what is deployed:'
	plain <"$work/plan"
else
	echo 'What is deployed could not be read, so that nothing is said of what would change. The tool says:'
	plain <"$work/plan" | sed -n '/Error Message/,/^ *$/p' | sed -n '2,4p'
fi
echo 'Nothing was done: APPLY=1 deploys.'
