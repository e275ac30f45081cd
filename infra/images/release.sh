#!/usr/bin/env bash
# Builds with GoReleaser the release of the tag VERSION into bin/release: see "Releases" in infra/README.md. A release that is there
# is replaced once the new one is whole. To try it, PROGRAMS=a,b chooses programs and classes for images and functions, and ARCH=amd64
# the architectures of images.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# The key is for those who sign.
unset "${!COSIGN_@}"
# In a zip, times are in the time zone of the machine.
export VERSION GORELEASER_CURRENT_TAG=$VERSION TZ=UTC
"$(cd infra/images && go tool -n goreleaser)" release --clean --skip=publish,announce

out=bin/release.part
rm -rf "$out"
mkdir -p "$out"
cp -r bin/parts/{images,NOTES.md,LICENSES-OF-LIBRARIES,provenance.json,lbremedy-*.tgz} "$out"
cp bin/goreleaser/*_"$VERSION"[._]* "$out"
cp bin/goreleaser/krew/lbremedy.yaml "$out/krew.yaml"
cp infra/cluster/approvals.yaml infra/observability/{alerts.yaml,dashboard.json} s.yaml "$out"
rm "$out/images/SHA256SUMS"
# A digest names what is in blobs.
(cd "$out" && find . -type f ! -path '*/blobs/*' -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) >bin/SHA256SUMS.part
mv bin/SHA256SUMS.part "$out/SHA256SUMS"
rm -rf bin/release bin/goreleaser bin/parts
mv "$out" bin/release
