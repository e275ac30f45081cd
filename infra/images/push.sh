#!/usr/bin/env bash
# Says what the registry REGISTRY=host/name lacks of the images that build.sh wrote to IN, and of the chart, if the file CHART is
# named. With APPLY=1 pushes that: the chart last, as it names the images. TAG is another tag than the version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
in=${IN:-bin/images}

fail() {
	echo "push: $1" >&2
	exit 1
}

[ -n "${REGISTRY:-}" ] || fail 'name the registry and namespace to push to, such as REGISTRY=registry.example/acme'
[ -f "$in/digests.yaml" ] || fail 'no images are built: make images builds them'
tag=${TAG:-$(sed -n 's/^  tag: "\(.*\)"$/\1/p' "$in/digests.yaml")}
crane=$(cd infra/images && go tool -n crane)

# asked runs crane and prints nothing if the registry has no such thing. A registry that can't be asked is an error.
asked() {
	local said
	if said=$("$crane" "$@" 2>&1); then
		tail -n 1 <<<"$said"
	elif ! grep -qE 'NAME_UNKNOWN|MANIFEST_UNKNOWN|404 Not Found' <<<"$said"; then
		fail "ask the registry for ${*: -1}: $said"
	fi
}

count=0 lacks=0
while read -r name digest; do
	name=${name%:} to=$REGISTRY/${name%:}:$tag has=
	had=$(asked digest "$to")
	count=$((count + 1))
	if [ "$had" = "$digest" ]; then
		has=same
	else
		lacks=$((lacks + 1))
		has='new: the registry has no such digest'
		known=$(asked digest "$REGISTRY/$name@$digest")
		[ -z "$known" ] || has='known: the tag is set'
		[ -z "$had" ] || has+=", the tag moves from $had"
		if [ -n "${APPLY:-}" ]; then
			said=$("$crane" push "$in/oci/$name" "$to" 2>&1) || fail "push $to: $said"
			# A registry that takes an image and has another is found out.
			now=$(asked digest "$to")
			[ "$now" = "$digest" ] || fail "$to is $now after it was pushed, and not $digest"
		fi
	fi
	printf '%-28s %s  %s\n' "$name" "$digest" "$has"
done < <(sed -n 's/^    \([a-z0-9-]*: sha256:[0-9a-f]*\)$/\1/p' "$in/digests.yaml")
if [ "$lacks" -eq 0 ]; then
	echo "All $count images are in $REGISTRY as $tag."
elif [ -z "${APPLY:-}" ]; then
	echo "$lacks of $count images would be pushed to $REGISTRY as $tag; APPLY=1 pushes them."
else
	echo "Pushed $lacks of $count images to $REGISTRY as $tag."
fi

[ -n "${CHART:-}" ] || exit 0
to=$REGISTRY/charts/lbremedy:$(basename "${CHART#*lbremedy-}" .tgz | tr + _)
sum=$(sha256sum "$CHART")
has=$(asked manifest "$to")
if [[ $has == *"sha256:${sum%% *}"* ]]; then
	echo "The chart is in $to."
elif [ -z "${APPLY:-}" ]; then
	echo "The chart would be pushed to $to; APPLY=1 pushes it."
else
	plain=()
	case $REGISTRY in 127.0.0.1:* | localhost:*) plain=(--plain-http) ;; esac
	said=$("$(cd infra/images && go tool -n helm)" push "$CHART" "oci://$REGISTRY/charts" ${plain[@]+"${plain[@]}"} 2>&1) || fail "push $to: $said"
	echo "Pushed the chart to $to."
fi
