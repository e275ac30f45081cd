package doctor

import (
	"regexp"

	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Symptom is what a person sees without an error message.
type Symptom struct {
	Text  say.Text
	Check string   // ID of the check that looks for causes; empty: Means is the whole answer
	Means say.Text // the cause and a command, if no check looks for it

	words words // all of them match a person's description in English or Chinese
}

type words []func() *regexp.Regexp

var (
	fails = regex.New(`(?i)\b(?:can(?:no|')?t|cannot|unable|fail|failed|fails|not|no|won'?t|timeout|times? out|timed out|refused|unreachable|lost|missing|` +
		`gone|disappear(?:s|ed)?|stuck|wrong|ignored)\b|不(?:通|能|了|到|上|生效|变)|无法|没有|未|失败|超时|丢失|消失|卡(?:住|在)`)
	balancers = regex.New(`(?i)\b(?:services?|svc|load ?balancers?|slb|clb|nlb|ccm|controller|ingress|listeners?|external-ip|address|events?|ip)\b|` +
		`负载均衡|服务|监听|控制器|地址|事件`)
)

var symptoms = []Symptom{
	{
		Text:  say.F("The address can't be reached from a Pod or a node"),
		Check: inside.ID,
		words: words{
			fails,
			balancers,
			regex.New(`(?i)\b(?:inside|within|in-cluster|from (?:a |the |my )?(?:pods?|nodes?|containers?|cluster))\b|集群内|` +
				`(?:Pod|节点|容器)(?:里|中|内|上)|从.{0,12}(?:Pod|节点|容器)`),
		},
	},
	{
		Text:  say.F("Requests fail during rollouts, scaling or node changes"),
		Check: draining.ID,
		words: words{
			regex.New(`(?i)\b50[234]\b|\b5xx\b|\bresets?\b|\b(?:requests?|connections?|calls?) (?:\w+ )?(?:errors?|fail)|` +
				`\bdrop|\binterrupt|\bdisconnect|中断|断开|(?:请求|访问|连接|调用)(?:\S{0,3})?(?:报错|失败|超时)|抖动`),
			regex.New(`(?i)\broll(?:out|ing)|\bdeploy|\brestart|\bscal(?:e|ing)|\bupgrad(?:e|ing)|\brelease\b|发布|滚动|重启|扩缩?容|缩容|升级`),
		},
	},
	{
		Text: say.F("Pods see the address of a node in place of the client's"),
		Means: say.F("With externalTrafficPolicy Cluster and nodes as backends, nodes replace the client's address. To see the " +
			"policies: kubectl get service -A -o custom-columns=NAME:.metadata.name,POLICY:.spec.externalTrafficPolicy"),
		words: words{
			regex.New(`(?i)\b(?:client|source|src|real|original|remote)[ -]?(?:ip|addr)|\baddress of (?:a|the) node\b|客户端.{0,4}(?:IP|` +
				`地址)|源\s*(?:IP|地址)|真实\s*IP`),
		},
	},
	{
		Text: say.F("A Service is recreated and should keep its address"),
		Means: say.F("With the annotation preserve-lb-on-delete (CCM v2.10.0 or newer) the load balancer stays when its Service is deleted, and a new " +
			"Service can name it with the annotation id. To see what deletion would do: lbremedy doctor --checks deletion --severity info"),
		words: words{
			regex.New(`(?i)\b(?:keep|preserv|retain|reus)\w*|保留|不变|复用`),
			regex.New(`(?i)\b(?:ip|address)\b|地址`),
			regex.New(`(?i)\b(?:recreat|re-creat|delet|mov(?:e|ing)|migrat)\w*|重建|重新创建|删除|迁移`),
		},
	},
	{
		Text: say.F("The loadBalancerClass can't be changed"),
		Means: say.F("Kubernetes lets nobody change the class of a Service. For a load balancer of the other kind, create a second Service, move the traffic, and " +
			"delete the first one. To check its manifest: lbremedy doctor -f FILE"),
		words: words{regex.New(`(?i)may not change once set|\bloadBalancerClass\b.*\b(?:chang|immutable)|(?:CLB|NLB).{0,6}(?:换成|改成|切换)`)},
	},
	{
		Text:  say.F("The load balancer was deleted by hand or is gone"),
		Check: lbGone.ID,
		words: words{
			regex.New(`(?i)\b(?:load ?balancer|slb|clb|nlb)\b|负载均衡|实例`),
			regex.New(`(?i)\bdeleted\b|\bgone\b|\breleased\b|\bdisappear|\bno longer exists?|误删|删除了|被(?:删|释放)|不见|不存在`),
		},
	},
	{
		Text:  say.F("The Service can't be deleted"),
		Check: finalizers.ID,
		words: words{
			regex.New(`(?i)\bdelet|\bremov|\breleas|删除|释放|误删`),
			balancers,
			regex.New(`(?i)\bstuck\b|\bcan(?:no|')?t\b|\bhangs?\b|\bterminating\b|\bfinalizer|卡|无法|不掉|一直`),
		},
	},
	{
		Text:  say.F("The Service stays pending without an Event"),
		Check: pending.ID,
		words: words{
			balancers,
			regex.New(`(?i)\bpending\b|Events: +<none>|一直.{0,6}(?:等待|创建中)|没有.{0,4}(?:外部|公网)\s*(?:IP|地址)`),
		},
	},
	{
		Text: say.F("A node is not a backend"),
		Means: say.F("The controller leaves out nodes that aren't ready, virtual nodes, nodes of the control plane, and those " +
			"with a label that excludes them. To see why: lbremedy plan NAMESPACE/SERVICE"),
		words: words{
			regex.New(`(?i)\bnodes?\b|节点|\bECS\b`),
			regex.New(`(?i)\bmasters?\b|\bcontrol[- ]plane\b|\bno(?:t(?: a)?)? backend|单节点|就?一台|\bnot? (?:added|in the)|控制面|管控节点|` +
				`(?:没有|未|不)(?:被)?(?:加入|添加|挂载)|不是后端|没有后端`),
		},
	},
	{
		Text:  say.F("A cordoned or drained node still gets traffic"),
		Check: cordoned.ID,
		words: words{
			regex.New(`(?i)\bcordon|\bdrained\b|\bunschedul|封锁|不可调度|排水`),
		},
	},
	{
		Text:  say.F("Pods get unequal shares of the traffic"),
		Check: nodeWeights.ID,
		words: words{
			regex.New(`(?i)\bune(?:ven|qual)|\bimbalanc|\bunbalanc|\bnot (?:evenly|balanced)|\bevenly\b|\bmost of the traffic\b|\btimes the traffic\b|\bskew|不均|倾斜|不平衡`),
		},
	},
	{
		Text:  say.F("A setting made in the console is set back"),
		Check: drift.ID,
		words: words{
			regex.New(`(?i)\bconsole\b|\bby hand\b|\bmanual(?:ly)?\b|控制台|手(?:动|工)`),
			regex.New(`(?i)\brevert|\breset|\bset back|\boverw|\bchanged back|\bundone|覆盖|恢复|还原|改回|重置`),
		},
	},
	{
		Text:  say.F("An annotation has no effect"),
		Check: annotations.ID,
		words: words{
			regex.New(`(?i)\bannotation|注解`),
			fails,
		},
	},
	{
		Text:  say.F("Clients outside of loadBalancerSourceRanges get through"),
		Check: sourceRanges.ID,
		words: words{
			regex.New(`(?i)source ?ranges?|\bwhite-?list|\ballow-?list|\bacl\b|访问控制|白名单`),
		},
	},
	{
		Text:  say.F("A port has no listener"),
		Check: listenersMissing.ID,
		words: words{
			regex.New(`(?i)\blisteners?\b|监听`),
			fails,
		},
	},
	{
		Text:  say.F("Backends are old or missing"),
		Check: staleGroups.ID,
		words: words{
			regex.New(`(?i)\bbackends?\b|\bserver groups?\b|后端|服务器组`),
			regex.New(`(?i)\bold\b|\bstale\b|\bempty\b|\bmissing\b|\bnot updated\b|\bno backends?\b|\bout ?dated\b|旧|为空|缺失|没有更新|未更新`),
		},
	},
	{
		Text:  say.F("Changes take minutes to arrive"),
		Check: scale.ID,
		words: words{
			regex.New(`(?i)\bchanges?\b|\bsync|\bupdates?\b|变更|同步|更新|修改`),
			regex.New(`(?i)\bslow|\bdelay|\btakes? (?:long|minutes|too)|\blag|慢|延迟|很久|几分钟`),
		},
	},
	{
		Text:  say.F("The controller may lack permissions after an upgrade"),
		Check: permissions.ID,
		words: words{
			regex.New(`(?i)\bccm\b|\bcontroller\b|\bram\b|\bupgrad|控制器|升级`),
			regex.New(`(?i)\bpermission|\bram\b|\bauthori[sz]|\bforbidden\b|权限|授权`),
		},
	},
	{
		Text:  say.F("A quota or limit of load balancers may be reached"),
		Check: room.ID,
		words: words{
			balancers,
			regex.New(`(?i)\bquotas?\b|\blimits?\b|\bhow many\b|配额|上限|限额`),
		},
	},
	{
		Text:  say.F("A load balancer can't be renamed or reused"),
		Check: reuse.ID,
		words: words{
			regex.New(`(?i)\breus|\bexisting (?:slb|clb|nlb|load ?balancer)|复用|已有(?:的)?(?:SLB|CLB|NLB|负载均衡|实例)`),
		},
	},
}

// Symptoms returns all symptoms.
func Symptoms() []Symptom { return symptoms }

// SymptomIn returns the symptom that a text describes.
func SymptomIn(text string) (Symptom, bool) {
symptoms:
	for _, s := range symptoms {
		for _, w := range s.words {
			if !w().MatchString(text) {
				continue symptoms
			}
		}
		return s, true
	}
	return Symptom{}, false
}
