package ram

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

type object = map[string]any

type place struct{ region, account, cluster, namespace, issuer, name string }

func (p place) narrow(text string) string {
	for _, product := range []string{"slb", "nlb", "vpc", "ecs", "cs", "fc"} {
		text = strings.ReplaceAll(text, "acs:"+product+":*:*:", "acs:"+product+":"+p.region+":"+p.account+":")
	}
	text = strings.ReplaceAll(text, ":cluster/*", ":cluster/"+p.cluster)
	return strings.ReplaceAll(text, ":functions/lbremedy-*", ":functions/"+p.name+"-*")
}

func (p place) trust(text, role string) string {
	return strings.NewReplacer("ACCOUNT", p.account, "CLUSTER", p.cluster, "ISSUER", p.issuer, "NAMESPACE", p.namespace, "ROLE", role).Replace(text)
}

func parsed(text string) (out object) {
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(err) // documents are generated
	}
	return out
}

func written(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // it consists of strings
	}
	return out.Bytes()
}

// terraform returns a module in Terraform's JSON syntax that makes the roles in the variable roles. Arguments are those of
// https://registry.terraform.io/providers/aliyun/alicloud/latest/docs/resources/ram_role, ram_policy and ram_role_policy_attachment;
// assume_role_policy_document came with 1.252.0.
func terraform(policies map[string]string) []byte {
	p := place{"${var.region}", "${var.account}", "${var.cluster}", "${var.namespace}", "${local.issuer}", "${var.name}"}
	documents := object{}
	for name, text := range policies {
		documents[name] = parsed(p.narrow(text))
	}
	variable := func(kind, description string, def ...any) object {
		out := object{"type": kind, "description": description}
		if len(def) > 0 {
			out["default"] = def[0]
		}
		return out
	}
	return written(object{
		"terraform": object{"required_providers": object{"alicloud": object{"source": "aliyun/alicloud", "version": ">= 1.252.0"}}},
		"variable": object{
			"account":   variable("string", "Number of the Alibaba Cloud account."),
			"region":    variable("string", "Region of the cluster, such as cn-hangzhou."),
			"cluster":   variable("string", "ID of the ACK cluster."),
			"namespace": variable("string", "Namespace of the Pods.", "lbremedy"),
			"name":      variable("string", "Prefix of the names of roles and policies.", "lbremedy"),
			"issuer":    variable("string", "OIDC issuer of the cluster; default: the one that ACK makes.", ""),
			"roles":     variable("set(string)", "The roles: up, or engine and classes, or notifier, or doctor.", []string{"up"}),
			"trust":     variable("map(string)", "fc for each role that Function Compute takes; the others are for Pods, by RRSA.", object{}),
			"extra":     variable("map(set(string))", "More policies of a role: doctor, invoke, kubeconfig or runtime.", object{}),
		},
		"locals": object{
			"issuer":   `${var.issuer != "" ? var.issuer : "https://oidc-ack-${var.region}.oss-${var.region}.aliyuncs.com/${var.cluster}"}`,
			"trusts":   object{"fc": parsed(trustFC), "rrsa": parsed(p.trust(trustRRSA, "ROLE"))},
			"policies": documents,
			"attached": `${merge([for r in var.roles : {for p in setunion(contains(keys(local.policies), r) ? [r] : [], lookup(var.extra, r, [])) : ` +
				`format("%s/%s", r, p) => {role = r, policy = p}}]...)}`,
		},
		"resource": object{
			"alicloud_ram_role": object{"role": object{
				"for_each": "${var.roles}", "role_name": "${var.name}-${each.key}", "description": "lbremedy: ${each.key}",
				"assume_role_policy_document": `${replace(jsonencode(local.trusts[lookup(var.trust, each.key, "rrsa")]), ":ROLE\"", ":${var.name}-${each.key}\"")}`,
			}},
			"alicloud_ram_policy": object{"policy": object{
				"for_each": "${toset([for a in local.attached : a.policy])}", "policy_name": "${var.name}-${each.key}",
				"policy_document": "${jsonencode(local.policies[each.key])}", "rotate_strategy": "DeleteOldestNonDefaultVersionWhenLimitExceeded",
			}},
			"alicloud_ram_role_policy_attachment": object{"attachment": object{
				"for_each": "${local.attached}", "policy_type": "Custom", "policy_name": "${alicloud_ram_policy.policy[each.value.policy].policy_name}",
				"role_name": "${alicloud_ram_role.role[each.value.role].role_name}",
			}},
		},
		"output": object{"roles": object{"description": "ARNs of the roles, by name.", "value": "${{for k, r in alicloud_ram_role.role : k => r.arn}}"}},
	})
}

// ros returns a template that makes a platform's roles. Properties are those of
// https://www.alibabacloud.com/help/en/ros/developer-reference/aliyun-ram-role.
func ros(roles []string, policies map[string]string) []byte {
	p := place{"${ALIYUN::Region}", "${ALIYUN::TenantId}", "${Cluster}", "${Namespace}",
		"https://oidc-ack-${ALIYUN::Region}.oss-${ALIYUN::Region}.aliyuncs.com/${Cluster}", "${Name}"}
	sub := func(text string) object { return object{"Fn::Sub": text} }
	when := func(condition string, then, otherwise any) object {
		return object{"Fn::If": []any{condition, then, otherwise}}
	}
	resources := object{}
	for _, role := range roles {
		named := func(policy string) object {
			name := p.name + "-" + role
			if policy != role {
				name += "-" + policy
			}
			return object{"PolicyName": sub(name), "PolicyDocument": filled(parsed(p.narrow(policies[policy])))}
		}
		optional := func(condition, policy string) object {
			return when(condition, named(policy), object{"Ref": "ALIYUN::NoValue"})
		}
		trust, condition, with := any(filled(parsed(p.trust(trustRRSA, p.name+"-"+role)))), "Functions", []any{}
		if policies[role] != "" {
			with = append(with, named(role))
		}
		switch role {
		case "doctor", "notifier": // parts that run separately: roles.sh makes their roles
			continue
		case "up":
			condition = "Pod"
		case "engine":
			with = append(with, optional("FunctionCompute", "invoke"))
		default:
			trust = when("FunctionCompute", parsed(trustFC), trust)
			with = append(with, optional("FunctionCompute", "kubeconfig"))
		}
		if role == "up" || role == "engine" {
			with = append(with, optional("Doctor", "doctor"))
		}
		resources[strings.ReplaceAll(role, "-", "")] = object{
			"Type": "ALIYUN::RAM::Role", "Condition": condition,
			"Properties": object{
				"RoleName": sub(p.name + "-" + role), "Description": "lbremedy: " + role, "AssumeRolePolicyDocument": trust, "Policies": with, "DeletionForce": true,
			},
		}
	}
	parameter := func(description string, more object) object {
		out := object{"Type": "String", "Description": description}
		maps.Copy(out, more)
		return out
	}
	is := func(parameter, value string) object {
		return object{"Fn::Equals": []any{object{"Ref": parameter}, value}}
	}
	return written(object{
		"ROSTemplateFormatVersion": "2015-09-01",
		"Description":              "The RAM roles of lbremedy in one cluster of ACK.",
		"Parameters": object{
			"Cluster":   parameter("ID of the ACK cluster.", nil),
			"Namespace": parameter("Namespace of the Pods.", object{"Default": "lbremedy"}),
			"Name":      parameter("Prefix of the names of roles and policies.", object{"Default": "lbremedy"}),
			"Platform":  parameter("Where the classes run.", object{"Default": "pod", "AllowedValues": []string{"pod", "knative", "fc"}}),
			"Doctor":    parameter("Whether lbremedy up runs the doctor.", object{"Default": "no", "AllowedValues": []string{"yes", "no"}}),
		},
		"Conditions": object{
			"Pod": is("Platform", "pod"), "Functions": object{"Fn::Not": "Pod"}, "FunctionCompute": is("Platform", "fc"), "Doctor": is("Doctor", "yes"),
		},
		"Resources": resources,
	})
}

func filled(v any) any {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "${") {
			return object{"Fn::Sub": v}
		}
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = filled(out[i])
		}
		return out
	case object:
		out := object{}
		for key, value := range v {
			out[key] = filled(value)
		}
		return out
	}
	return v
}
