#!/usr/bin/env bash
# Signs with cosign the release in bin/release, and what the registry REGISTRY=host/name has of it: images, chart, and with their SBOMs
# where they are from. COSIGN_KEY names the key, or COSIGN_PRIVATE_KEY holds it; COSIGN_PASSWORD is its passphrase.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../bin/release"
tools=../../infra/images

fail() {
	echo "sign: $1" >&2
	exit 1
}

case ${COSIGN_KEY:+file}${COSIGN_PRIVATE_KEY:+text} in
file) key=$COSIGN_KEY ;;
text) key=env://COSIGN_PRIVATE_KEY ;;
filetext) fail 'COSIGN_KEY and COSIGN_PRIVATE_KEY both name a key: set one' ;;
*) fail 'neither COSIGN_KEY nor COSIGN_PRIVATE_KEY names a key' ;;
esac
[ -n "${REGISTRY:-}" ] || fail 'name the registry and namespace that the release was pushed to, such as REGISTRY=registry.example/acme'
files=$(find . -type f ! -path './images/oci/*/blobs/*' ! -name 'SHA256SUMS*' ! -name cosign.pub | wc -l)
if [ "$files" -ne "$(wc -l <SHA256SUMS)" ] || ! sha256sum --quiet --strict -c SHA256SUMS; then
	fail 'the files of the release are not what its SHA256SUMS says: build it again'
fi
cosign=$(cd $tools && go tool -n cosign) crane=$(cd $tools && go tool -n crane)
# Without a transparency log: signing needs no network but the registry.
signed=(--key "$key" --signing-config $tools/signing-config.json --yes)

"$cosign" sign-blob "${signed[@]}" --bundle SHA256SUMS.bundle SHA256SUMS
"$cosign" public-key --key "$key" >cosign.pub
n=0
sign() {
	"$cosign" verify --key cosign.pub --insecure-ignore-tlog=true "$1" >/dev/null 2>&1 || "$cosign" sign "${signed[@]}" "$1"
	"$cosign" attest "${signed[@]}" --type slsaprovenance1 --predicate provenance.json "$1"
	n=$((n + 1))
}
while read -r name digest; do
	name=${name%:}
	sign "$REGISTRY/$name@$digest"
	for document in images/sbom/"$name"/*-linux-*.spdx.json; do
		platform=${document##*-linux-}
		image=$("$crane" digest --platform "linux/${platform%.spdx.json}" "$REGISTRY/$name@$digest")
		"$cosign" attest "${signed[@]}" --type spdxjson --predicate "$document" "$REGISTRY/$name@$image"
	done
done < <(sed -n 's/^    \([a-z0-9-]*: sha256:[0-9a-f]*\)$/\1/p' images/digests.yaml)
chart=$(echo lbremedy-*.tgz)
chart=$REGISTRY/charts/lbremedy:$(basename "${chart#lbremedy-}" .tgz | tr + _)
sign "${chart%:*}@$("$crane" digest "$chart")"
sum=$(sha256sum cosign.pub)
echo "Signed SHA256SUMS, and $n images and charts. The public key is cosign.pub, with SHA-256 ${sum%% *}."
