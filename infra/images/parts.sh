#!/usr/bin/env bash
# GoReleaser runs it before it builds programs. It writes into bin/parts what the archives hold beside them, and what is no archive:
# release notes, images, chart, and the provenance in the words of SLSA (https://slsa.dev/spec/v1.0/provenance).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export GOWORK=off CGO_ENABLED=0 GOEXPERIMENT=
parts=$PWD/bin/parts
rm -rf "$parts"
mkdir -p "$parts/completions"
infra/images/notes.sh "$VERSION" >"$parts/NOTES.md"

# The licences of the modules that are linked into any program, for any platform.
for platform in {darwin,linux,windows}/{amd64,arm64}; do
	GOOS=${platform%/*} GOARCH=${platform#*/} GOFLAGS='' go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' \
		./functions/cmd/lbremedy ./events/cmd/exporter ./functions/...
done | LC_ALL=C sort -u | while read -r module version dir; do
	texts=$(find "$dir" -maxdepth 1 -type f | grep -iE '/(licen[cs]e|copying|notice)([.-][^/]*)?$' | LC_ALL=C sort) || {
		echo "parts: $module $version has no licence: it can't be given to others" >&2
		exit 1
	}
	for text in $texts; do
		printf '==== %s %s, %s\n\n%s\n\n' "$module" "$version" "$(basename "$text")" "$(cat "$text")"
	done
done >"$parts/LICENSES-OF-LIBRARIES"

go build -trimpath -gcflags=all=-dwarf=false -buildvcs=false -ldflags='-s -w' -o "$parts/lbremedy" ./functions/cmd/lbremedy
for shell in bash fish powershell zsh; do
	env -i HOME="$parts" "$parts/lbremedy" completion "$shell" >"$parts/completions/lbremedy.$shell"
done
# kubectl runs it to complete the arguments of its plugin.
printf '#!/usr/bin/env sh\nexec kubectl lbremedy __complete "$@"\n' >"$parts/completions/kubectl_complete-lbremedy"

classes=$(tr , '\n' <<<"${PROGRAMS:-}" | grep -vxE 'lbremedy|exporter' | paste -sd, || true)
go run ./infra/fc/pack -o "$parts/fc" -classes "$classes"
OUT=$parts/images infra/images/build.sh
OUT=$parts infra/images/chart.sh

# It names no time and no machine: whoever builds the tag makes the same, and whoever signs it vouches for it.
source=https://github.com/lbremedy/lbremedy commit=$(git rev-parse HEAD) sum=$(sha256sum go.sum)
cat >"$parts/provenance.json" <<-END
	{
	  "buildDefinition": {
	    "buildType": "$source/blob/$VERSION/infra/README.md#releases",
	    "externalParameters": {"repository": "$source", "version": "$VERSION"},
	    "resolvedDependencies": [
	      {"uri": "git+$source@refs/tags/$VERSION", "digest": {"gitCommit": "$commit"}},
	      {"uri": "$source/blob/$commit/go.sum", "digest": {"sha256": "${sum%% *}"}}
	    ]
	  },
	  "runDetails": {"builder": {"id": "$source/blob/$VERSION/.goreleaser.yaml", "version": {"go": "$(go env GOVERSION)"}}}
	}
END
