#!/usr/bin/env bash
# Packs with Helm the chart of VERSION into OUT: the tag and the digests of OUT/images are its defaults, and its annotations
# tell Artifact Hub of the images and of what OUT/NOTES.md, if it is there, says is new.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
helm=$(cd infra/images && go tool -n helm)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chart=$work/lbremedy source=https://github.com/lbremedy/lbremedy/blob/$VERSION
cp -r infra/cluster "$chart"
cp LICENSE "$chart/"
sed -n '/^    /p' "$OUT/images/digests.yaml" >"$work/digests"
[ "$(grep -cE '^  (tag: ""|digests: \{\}) ' infra/cluster/values.yaml)" -eq 2 ] || {
	echo 'chart: values.yaml lacks the lines of image.tag and image.digests' >&2
	exit 1
}
sed -e "s/^  tag: \"\" .*/  tag: \"$VERSION\"/" -e "/^  digests: {} /r $work/digests" -e 's/^  digests: {} .*/  digests: # of this release/' \
	infra/cluster/values.yaml >"$chart/values.yaml"
# The page's links to what is not in the chart.
sed -e "s#](\.\./\.\./#]($source/#g" -e "s#](\.\./#]($source/infra/#g" infra/cluster/README.md >"$chart/README.md"
{
	case $VERSION in *-*) echo '  artifacthub.io/prerelease: "true"' ;; *) echo '  artifacthub.io/prerelease: "false"' ;; esac
	echo '  artifacthub.io/images: |'
	sed 's#^ *\(.*\): \(sha256:.*\)#    - {name: \1, image: "ghcr.io/lbremedy/\1@\2"}#' "$work/digests"
	if [ -s "$OUT/NOTES.md" ] && grep -q '^- ' "$OUT/NOTES.md"; then
		echo '  artifacthub.io/changes: |'
		# The points of the notes, without links, bold type and code.
		awk '/^- / { printf "%s    - >-\n      %s", end, substr($0, 3); end = "\n"; in_point = 1; next }
			in_point && /^  / { printf " %s", substr($0, 3); next }
			{ in_point = 0 }
			END { print "" }' "$OUT/NOTES.md" | sed -e 's/\[\([^]]*\)\]([^)]*)/\1/g' -e 's/\*\*//g' -e 's/`//g'
	fi
} >>"$chart/Chart.yaml"
# Helm keeps the times of files, and tells that of the archive to the registry.
export TZ=UTC
find "$chart" -exec touch -t 197001010000 {} +
"$helm" package "$chart" --version "${VERSION#v}" --app-version "$VERSION" --destination "$OUT" >/dev/null
touch -t 197001010000 "$OUT/lbremedy-${VERSION#v}.tgz"
