#!/usr/bin/env bash
# Makes the RAM roles of lbremedy, one for each class: see "infra/ram/roles.sh --help".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/generated"

help() {
	cat <<-'TEXT'
		Usage: infra/ram/roles.sh --account ID --region REGION --cluster ID [flags]

		Makes one RAM role for each class of failure, with a policy of
		exactly its actions in this account, region and cluster; or removes them. It prints the
		commands of the aliyun command line that it would run, and runs them with --apply.

		  --account ID        number of the Alibaba Cloud account
		  --region REGION     region of the cluster, such as cn-hangzhou
		  --cluster ID        ID of the ACK cluster
		  --trust fc|rrsa     who may take the roles: Function Compute (the default), or Pods by RRSA
		  --namespace NAME    namespace of the Pods, for --trust rrsa; lbremedy if not given
		  --issuer URL        OIDC issuer of the cluster, for --trust rrsa; the one that ACK makes if not given
		  --name NAME         what the names of the roles begin with; lbremedy if not given
		  --class CLASS       this class alone, or up for "lbremedy up", or engine for "lbremedy up"
		                      where functions handle all classes, or notifier for its part that
		                      opens tickets, or doctor for a console in a Pod of its own; may be
		                      given several times
		  --doctor            "lbremedy up" runs the doctor, too
		  --invoke            "lbremedy up" calls functions of Function Compute
		  --kubeconfig        functions fetch their kubeconfig from the container service
		  --runtime           Function Compute has no service-linked role in this account
		  --remove            remove the roles and their policies, instead of making them
		  --apply             run the commands
	TEXT
}

die() {
	printf '%s\n' "roles.sh: $1" >&2
	exit 2
}

account='' region='' cluster='' trust=fc namespace=lbremedy issuer='' name=lbremedy apply='' doctor='' invoke='' remove='' extra=() classes=()
while [ $# -gt 0 ]; do
	flag=$1
	shift
	case $flag in
	--help | -h) help && exit 0 ;;
	--apply) apply=yes ;;
	--remove) remove=yes ;;
	--doctor) doctor=yes ;;
	--invoke) invoke=yes ;;
	--kubeconfig | --runtime) extra+=("${flag#--}") ;;
	--account | --region | --cluster | --trust | --namespace | --issuer | --name | --class)
		[ $# -gt 0 ] || die "$flag needs a value"
		case $1 in *[!A-Za-z0-9:/._-]* | '') die "$flag: \"$1\" is no value that it can have" ;; esac
		if [ "$flag" = --class ]; then classes+=("$1"); else printf -v "${flag#--}" %s "$1"; fi
		shift
		;;
	*) die "unknown flag $flag: see --help" ;;
	esac
done
case $account in '' | *[!0-9]*) die 'name the number of the account with --account' ;; esac
[ -n "$region" ] || die 'name the region with --region, such as cn-hangzhou'
[ -n "$cluster" ] || die 'name the ACK cluster with --cluster'
case $trust in fc | rrsa) ;; *) die "--trust is fc or rrsa, not $trust" ;; esac
: "${issuer:=https://oidc-ack-$region.oss-$region.aliyuncs.com/$cluster}"
[ -z "$apply" ] || command -v aliyun >/dev/null || die 'the aliyun command line is not installed: see https://github.com/aliyun/aliyun-cli'

# every prints all classes, which are the functions of s.yaml.
every() { sed -n '/^resources:/,$ s/^  \([a-z0-9-]*\):$/\1/p' ../../../s.yaml; }

if [ ${#classes[@]} -eq 0 ]; then
	# A class without RAM actions has a role, too: by it the cluster knows the function.
	while read -r class; do classes+=("$class"); done < <(every)
fi

# narrow prints a file of the folder generated for this account, region and cluster, and a role.
# No string in these files has a space.
narrow() {
	sed -E -e "s#acs:(slb|nlb|vpc|ecs|cs|fc):\*:\*:#acs:\1:$region:$account:#" -e "s#:cluster/\*#:cluster/$cluster#; s#:functions/lbremedy-#:functions/$name-#" \
		-e "s#ACCOUNT#$account#; s#CLUSTER#$cluster#; s#ISSUER#$issuer#; s#NAMESPACE#$namespace#; s#ROLE#${2:-}#" "$1" | tr -d ' \n'
}

# run prints a command as a shell would read it again, and runs it with --apply.
run() {
	printf 'aliyun ram'
	for word; do case $word in *[!A-Za-z0-9./:_-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac done
	echo
	[ -z "$apply" ] || aliyun ram "$@" >/dev/null
}

# there reports whether what a command asks for exists, and leaves what it says in
# answer. Without --apply nobody is asked, and nothing exists.
there() {
	[ -n "$apply" ] || return 1
	if answer=$(aliyun ram "$@" 2>&1); then return 0; fi
	case $answer in *EntityNotExist*) return 1 ;; esac
	die "aliyun ram $1: $answer"
}

# policy makes a policy of a file, or a new version of it if it says something else.
policy() {
	local document
	document=$(narrow "$2")
	if ! there GetPolicy --PolicyType Custom --PolicyName "$1"; then
		run CreatePolicy --PolicyName "$1" --PolicyDocument "$document"
	elif [[ $answer != *"${document//\"/\\\"}"* ]]; then
		run CreatePolicyVersion --PolicyName "$1" --PolicyDocument "$document" --SetAsDefault true --RotateStrategy DeleteOldestNonDefaultVersionWhenLimitExceeded
	fi
}

# attach attaches a policy to a role, if it is not.
attach() {
	if there ListPoliciesForRole --RoleName "$2" && grep -q "\"PolicyName\": *\"$1\"" <<<"$answer"; then return; fi
	run AttachPolicyToRole --PolicyType Custom --PolicyName "$1" --RoleName "$2"
}

# detach takes a policy off a role, if it is attached.
detach() {
	if [ -n "$apply" ]; then there ListPoliciesForRole --RoleName "$2" && grep -q "\"PolicyName\": *\"$1\"" <<<"$answer" || return 0; fi
	run DetachPolicyFromRole --PolicyType Custom --PolicyName "$1" --RoleName "$2"
}

# drop removes a policy with its older versions, if it is there.
drop() {
	local id
	if [ -n "$apply" ]; then there GetPolicy --PolicyType Custom --PolicyName "$1" || return 0; fi
	if there ListPolicyVersions --PolicyType Custom --PolicyName "$1"; then
		# The command line sorts the keys of what it prints.
		for id in $(grep -oE '"IsDefaultVersion": *(true|false)|"VersionId": *"[^"]+"' <<<"$answer" | awk -F'"' '/Default/ { d = /true/ } /Id/ && !d { print $4 }'); do
			run DeletePolicyVersion --PolicyName "$1" --VersionId "$id"
		done
	fi
	run DeletePolicy --PolicyName "$1"
}

known() {
	case $1 in up | engine | notifier | doctor) return ;; esac
	every | grep -x -e "$1" >/dev/null || die "there is no class $1: see functions/README.md"
}

if [ -n "$remove" ]; then
	[ -z "$doctor" ] || extra+=(doctor)
	[ -z "$invoke" ] || extra+=(invoke)
	for class in "${classes[@]}"; do
		known "$class"
		role=$name-$class
		for more in ${extra[@]+"${extra[@]}"}; do detach "$name-$more" "$role"; done
		detach "$role" "$role"
		if [ -z "$apply" ] || there GetRole --RoleName "$role"; then run DeleteRole --RoleName "$role"; fi
		drop "$role"
	done
	for more in ${extra[@]+"${extra[@]}"}; do drop "$name-$more"; done
	[ -n "$apply" ] || echo 'Nothing was done: --apply runs these commands.' >&2
	exit
fi

for more in ${extra[@]+"${extra[@]}"}; do policy "$name-$more" "$more.json"; done
for class in "${classes[@]}"; do
	known "$class"
	role=$name-$class
	document=$(narrow "trust/$trust.json" "$role")
	if ! there GetRole --RoleName "$role"; then
		run CreateRole --RoleName "$role" --AssumeRolePolicyDocument "$document"
	elif [[ $answer != *"${document//\"/\\\"}"* ]]; then
		run UpdateRole --RoleName "$role" --NewAssumeRolePolicyDocument "$document"
	fi
	if [ -e "class/$class.json" ]; then
		policy "$role" "class/$class.json"
		attach "$role" "$role"
	fi
	case $class in up | engine)
		if [ -n "$doctor" ]; then
			policy "$name-doctor" class/doctor.json
			attach "$name-doctor" "$role"
		fi
		if [ -n "$invoke" ]; then
			policy "$name-invoke" invoke.json
			attach "$name-invoke" "$role"
		fi
		;;
	esac
	for more in ${extra[@]+"${extra[@]}"}; do attach "$name-$more" "$role"; done
done
[ -n "$apply" ] || echo 'Nothing was done: --apply runs these commands.' >&2
