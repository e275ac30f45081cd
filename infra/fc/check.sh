#!/usr/bin/env bash
# Renders and verifies the generated files with Serverless Devs, against our own
# schema, and proves that it would notice: each of some typos has to be refused. It
# needs no account, and no network once the tool is there. The component fc3 is
# replaced by the stub beside this file, which deploys nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export S_HOME=$work/home
export LBREMEDY_FC_COMPONENT=$PWD/infra/fc/stub

# What a shell has to have, with examples; nothing of the caller's counts.
while read -r name; do unset "$name"; done < <(compgen -e | grep '^LBREMEDY_' | grep -v '^LBREMEDY_FC_COMPONENT$' || true)
export LBREMEDY_FC_ACCOUNT=1234567890123456 LBREMEDY_REGION=cn-hangzhou LBREMEDY_CLUSTER=c0ffee
export LBREMEDY_ENGINE_KEYS=$(printf 'k%.0s' {1..43})
export LBREMEDY_FC_VPC=vpc-example LBREMEDY_FC_VSWITCH=vsw-example LBREMEDY_FC_SECURITY_GROUP=sg-example
export LBREMEDY_FC_LOG_PROJECT=logs-of-ours

# s runs the tool and keeps what it says. It tells root not to be root, and that goes.
s() { infra/fc/s.sh "$@" 2>&1 | grep -v 'not recommended to run the command as root' >"$work/said"; }

fail() {
	cat "$work/said"
	printf '%s\n' "check-fc: $1" >&2
	exit 1
}

for file in s.yaml infra/fc/go1.yaml functions/examples/python/generated/s.yaml; do
	s preview -t "$file" -o json || fail "$file can't be rendered"
	! grep -qF '${' "$work/said" || fail "$file holds an expression that nothing filled in"
	s verify -t "$file" || fail "$file is not what infra/fc/schema.json says"
	grep -q 'passed' "$work/said" || fail "s verify does not say that $file passed"
	echo "$file: good"
done

# One function is enough to see a typo, and quicker.
few=$work/few.yaml
sed '/^  address-type-immutable:$/,$d' s.yaml >"$few"
s verify -t "$few" || fail 'the beginning of s.yaml alone is not good'

# refused checks that a file with one change is refused for the right reason.
refused() { # what, sed expression, what it says
	sed "$2" "$few" >"$work/typo.yaml"
	! cmp -s "$few" "$work/typo.yaml" || fail "$1: the change changes nothing"
	if s verify -t "$work/typo.yaml"; then fail "$1: not refused"; fi
	grep -q -e "$3" "$work/said" || fail "$1: refused, and not for \"$3\""
	echo "refused: $1"
}
refused 'a property that there is not' 's/memorySize: 128/memorysize: 128/' 'must NOT have additional properties'
refused 'a runtime that there is not' 's/runtime: custom.debian12/runtime: custom.debian21/' 'runtime must be equal to one of'
refused 'memory that can not be had' 's/memorySize: 128/memorySize: 100/' 'memorySize'
refused 'a variable that there is not' 's/\${vars.region}/${vars.regoin}/' 'vars.regoin} not found'
refused 'a variable that is not set' 's/LBREMEDY_FC_VPC/LBREMEDY_FC_VCP/' "LBREMEDY_FC_VCP') not found"
refused 'an environment variable that there is not' 's/LBREMEDY_CLUSTER: /LBREMEDY_CLUTSER: /' 'environmentVariables must'
refused 'an endpoint that is open to anybody' 's/authType: function/authType: anonymous/' 'authType'
refused 'a key of the engine that is none' 's/\${vars.engineKeys}/secret/' 'LBREMEDY_ENGINE_KEYS must match'
refused 'more than 4 KB of environment' "s/\${vars.kubeconfigData}/$(printf 'x%.0s' {1..4096})/" 'LBREMEDY_KUBECONFIG_DATA must NOT have more than'

# A deployment goes the same way up to the component, and the stub prints what it gets.
go run ./infra/fc/pack -classes busy -o "$work/zips" >/dev/null
export LBREMEDY_FC_ZIPS=$work/zips
deploy() { infra/fc/deploy.sh "$@" >"$work/said" 2>&1; }
for runtime in custom.debian12 go1; do
	deploy --class busy --runtime $runtime || fail 'the dry run fails'
	grep -q "^lbremedy-busy  $runtime  cn-hangzhou  acs:ram::1234567890123456:role/lbremedy-busy" "$work/said" || fail 'the dry run does not say what it would deploy'
	grep -q 'stub plans lbremedy-busy' "$work/said" || fail 'the dry run does not compare'
	! grep -q 'stub deploys' "$work/said" || fail 'the dry run deploys'
	deploy --class busy --runtime $runtime --apply || fail 'the deployment fails'
	grep -q "stub deploys {.*\"functionName\":\"lbremedy-busy\".*\"runtime\":\"$runtime\"" "$work/said" || fail 'the deployment does not deploy'
	grep -q "\"LBREMEDY_ENGINE_KEYS\":\"$LBREMEDY_ENGINE_KEYS\"" "$work/said" || fail 'the function does not know the engine'
	echo "deployed to the stub: busy on $runtime"
done
LBREMEDY_FC_COMPONENT=$work/no-such-component deploy --class busy || fail 'the dry run fails where nothing can be compared'
grep -q 'could not be read' "$work/said" || fail 'the dry run does not say that it could not compare'
if LBREMEDY_ENGINE_KEYS=secret deploy --class busy; then fail 'a function that no engine can call is deployed'; fi
grep -q 'LBREMEDY_ENGINE_KEYS must match' "$work/said" || fail 'the bad key is not named'
if LBREMEDY_CLUSTER='c 1' deploy --class busy; then fail 'a bad cluster ID is deployed'; fi
grep -q 'LBREMEDY_CLUSTER must match' "$work/said" || fail 'the bad cluster ID is not named'
echo 'x' >>"$work/zips/busy.zip"
if deploy --class busy; then fail 'a zip that was changed is deployed'; fi
grep -q 'not what SHA256SUMS says' "$work/said" || fail 'the changed zip is not named'
if deploy; then fail 'zips that are missing are deployed'; fi
grep -q 'quota.zip is missing' "$work/said" || fail 'a zip that is missing is not named'
echo 'refused: zips that are missing or changed'
