#!/usr/bin/env bash
# Runs Serverless Devs (s) with the arguments given, in the one version that this
# repository is checked with. The first run fetches it with npm into the user's cache
# directory; what npm brings has to have the digest below. It needs Node.js and npm.
#
# The tool keeps settings and credentials in the home directory, and reports how it is
# used, unless it is told otherwise: it is told so here, and S_HOME names another home.
set -euo pipefail

version=3.1.10
digest='sha512-BIKbyOVpu+Xb2MBYWZoOwOSLhlLVUquzWjoIHMg4yPpthTGUFhMAtQnR8iKeI2cYTTz/8dS13TNzO9qwhpqE1A=='

die() {
	printf '%s\n' "s.sh: $1" >&2
	exit 1
}

for tool in node npm tar; do
	command -v "$tool" >/dev/null || die "$tool is not installed. Serverless Devs needs Node.js 14 or later and npm: install both (Debian, Ubuntu: apt-get install nodejs npm), then try again."
done

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lbremedy/serverless-devs-$version
if [ ! -e "$cache/package/bin/s" ]; then
	mkdir -p "$(dirname "$cache")"
	fresh=$(mktemp -d -p "$(dirname "$cache")")
	trap 'rm -rf "$fresh"' EXIT
	npm pack "@serverless-devs/s@$version" --pack-destination "$fresh" --silent >/dev/null ||
		die "npm could not fetch @serverless-devs/s@$version: see what it says above"
	got=sha512-$(node -e 'process.stdout.write(require("crypto").createHash("sha512").update(require("fs").readFileSync(process.argv[1])).digest("base64"))' "$fresh"/*.tgz)
	[ "$got" = "$digest" ] || die "what npm fetched is not @serverless-devs/s@$version as it was when this repository was checked with it: $got"
	tar -xzf "$fresh"/*.tgz -C "$fresh"
	# Another run may have been faster: then its folder stays.
	node -e 'require("fs").renameSync(process.argv[1], process.argv[2])' "$fresh" "$cache" 2>/dev/null || [ -e "$cache/package/bin/s" ] || die "could not write $cache"
	trap - EXIT
fi

if [ -n "${S_HOME:-}" ]; then
	mkdir -p "$S_HOME/.s"
	echo 'analysis: disable' >"$S_HOME/.s/set-config.yml"
	export HOME=$S_HOME serverless_devs_config_home=$S_HOME
fi
# In CI it neither reports nor looks for new versions of itself.
export CI=true
exec node "$cache/package/bin/s" "$@"
