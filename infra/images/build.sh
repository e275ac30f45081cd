#!/usr/bin/env bash
# Builds with ko an image of each program, as an OCI image layout, and its SBOMs: see "Images" in infra/README.md.
#
# VERSION is what lbremedy and exporter print, and the tag. PROGRAMS=a,b chooses among the programs and classes, ARCH=amd64
# among the architectures. OUT is the folder to write to; what it held before is replaced.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export VERSION=${VERSION:-dev}
out=${OUT:-bin/images}

fail() {
	echo "images: $1" >&2
	exit 1
}

[[ $VERSION =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$ ]] || fail "the version \"$VERSION\" can't be a tag of an image"
platforms=
for arch in $(tr , ' ' <<<"${ARCH:-amd64,arm64}"); do
	[[ $arch =~ ^(amd64|arm64)$ ]] || fail "architecture \"$arch\": there are amd64 and arm64"
	platforms+=,linux/$arch
done
all=$({ echo exporter && echo lbremedy && sed -n 's/^- //p' infra/cluster/classes.yaml; } | sort)
programs=$all
if [ -n "${PROGRAMS:-}" ]; then
	programs=$(tr , '\n' <<<"$PROGRAMS" | sort -u)
	for name in $programs; do
		grep -qxF "$name" <<<"$all" || fail "there is no program and no class \"$name\": functions/README.md lists the classes"
	done
fi

ko=$(cd infra/images && go tool -n ko)
# ko takes no path with a capital letter for a layout, such as mktemp makes.
work=bin/ko.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
cp -r infra/images/empty "$work/img"
# ko writes the time of an image in the time zone of the machine.
export KOCACHE=$PWD/$work KO_CONFIG_PATH=infra/images/ko.yaml KO_DOCKER_REPO=images.invalid SOURCE_DATE_EPOCH=0 TZ=UTC
rm -rf "$out/oci" "$out/sbom"
mkdir -p "$out/oci" "$out/sbom"
digests=
for name in $programs; do
	labels=org.opencontainers.image.title=$name,org.opencontainers.image.source=https://github.com/lbremedy/lbremedy
	labels+=,org.opencontainers.image.licenses=Apache-2.0
	case $name in
	exporter) package=./events/cmd/exporter labels+=,org.opencontainers.image.version=$VERSION ;;
	lbremedy) package=./functions/cmd/lbremedy labels+=,org.opencontainers.image.version=$VERSION ;;
	*) package=./functions/${name//-/}/cmd/${name//-/} ;;
	esac
	image=$("$ko" build --push=false --bare --oci-layout-path "$work/oci" --sbom-dir "$out/sbom/$name" \
		--platform "${platforms#,}" --image-user 65532:65532 --image-label "$labels" "$package" 2>"$work/log") || {
		cat "$work/log" >&2
		exit 1
	}
	digests+="    $name: ${image##*@}"$'\n'
	printf '%-28s %s\n' "$name" "${image##*@}"
	mv "$work/oci" "$out/oci/$name"
	rm -rf "$work/bin"
done
cat >"$out/digests.yaml" <<-END
	# What make images built, for the chart: helm upgrade -f digests.yaml --set image.registry=...
	image:
	  tag: "$VERSION"
	  digests:
	${digests%$'\n'}
END
(cd "$out" && sha256sum digests.yaml oci/*/index.json sbom/*/* >SHA256SUMS)
