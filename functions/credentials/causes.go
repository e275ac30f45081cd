package credentials

import (
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	wrongClock = "wrong clock"
	noMetadata = "no metadata" // of the node
)

var restart = say.F("Then restart the controller: %s.", ccm.RestartCommand())

// causes are in the order in which they are tried.
var causes = []remedy.Cause{
	{
		Name: "unknown key", Texts: []string{"accesskeyid.notfound", "access key is not found"},
		Finding: say.F("Alibaba Cloud does not know the controller's access key: it was deleted, or it belongs to another site of Alibaba Cloud."),
		Ask:     say.F("Give the controller the access key of a RAM user that exists."),
	},
	{
		Name: "no key", Texts: []string{"access key id is empty", "access key secret is empty", "set up the credentials correctly"},
		Finding: say.F("The controller has no access key, or only one half of it."),
		Ask:     say.F("Give the controller the ID and the secret of an access key."),
	},
	{
		Name: "disabled key", Texts: []string{"accesskeyid.inactive", "access key is disabled", "accesskeydisabled"},
		Finding: say.F("The controller's access key is disabled."),
		Ask:     say.F("If the key was not leaked, enable it in the RAM console. Otherwise, give the controller the key of another RAM user."),
	},
	{
		Name: "bad key", Texts: []string{"invalidaccesskeyid"},
		Finding: say.F("Alibaba Cloud rejects the controller's access key."),
		Ask:     say.F("Give the controller the access key of a RAM user that exists and is active."),
	},
	{
		Name: "wrong secret", Texts: []string{"signaturedoesnotmatch", "signature is not matched"},
		Finding: say.F("The controller's signature is wrong: its access key secret does not belong to its access key ID."),
		Ask: say.F("Give the controller the ID and the secret of the same key, without white space around them.").
			And("In the configuration both are encoded in base64, in the environment they are not."),
	},
	{
		Name: wrongClock, Texts: []string{"time stamp or date value is expired", "invalidtimestamp"},
		Finding: say.F("The clock of the controller's node is wrong by more than 15 minutes, so Alibaba Cloud rejects its signatures."),
		Ask:     say.F("Set the clocks of the nodes that run the controller, and keep them in sync with NTP.").Then(ccm.ThenRetries()),
	},
	{
		Name: "expired token", Texts: []string{"securitytoken is expired", "invalidsecuritytoken.expired"},
		Finding: say.F("The controller's temporary token has expired, and it did not get a new one."),
		Ask: say.F("Remove the security token that is configured with the key, or give the controller a key that needs no token.").
			And("Every token expires within hours."),
	},
	{
		Name: "bad token", Texts: []string{"securitytoken", "security token is empty"},
		Finding: say.F("Alibaba Cloud rejects the controller's temporary token: it is missing, malformed, or belongs to another key."),
		Ask:     say.F("Give the controller a key and a security token from the same STS response, or a key that needs no token."),
	},
	{
		Name: noMetadata, Texts: []string{"metadata api error: status code: 403", "get token failed"},
		Finding: say.F("The metadata service of the controller's node refuses the request.").
			And("Either it demands a token and the controller runs with --enable-imdsv2=false, or it gives no token."),
		Ask: say.F("Set the flag --enable-imdsv2 of the controller as the metadata options of the node's server demand.").
			And("Or set vpcid and vswitchid in the ConfigMap cloud-config of kube-system: the controller then does not ask for them.").Then(restart),
	},
	{
		Name: noMetadata, Texts: []string{"metadata api error"},
		Finding: say.F("The metadata service of the controller's node does not know its VPC or its vSwitch."),
		Ask: say.F("Set vpcid and vswitchid in the ConfigMap cloud-config of kube-system: the controller then does not ask for them.").
			And("If the node has no server of Alibaba Cloud in a VPC, run the controller on another node.").Then(restart),
	},
	{
		Finding: say.F("Alibaba Cloud rejects the controller's credentials."),
		Ask:     say.F("Give the controller the access key of a RAM user that exists and is active."),
	},
}

func ask(why remedy.Cause, ctl ccm.Controller) say.Text {
	setup := why.Name == wrongClock || why.Name == noMetadata
	switch {
	case setup && ctl.DaemonSet:
		return why.Ask
	case setup:
		return say.F("On a managed cluster, only Alibaba Cloud can fix this: open a ticket.")
	case ctl.AccessKey:
		return why.Ask.Then(restart)
	case ctl.DaemonSet:
		role := say.F("Check that the node still has its RAM role and that its metadata service at 100.100.100.200 answers.")
		return say.F("Check the controller's configuration, the ConfigMap cloud-config in kube-system.").
			And("After a change, restart the controller: %s.", ccm.RestartCommand()).And("If it has an access key: %s If not: %s", why.Ask, role)
	}
	return say.F("On a managed cluster, the controller's credentials belong to ACK: authorize the service roles of ACK again in its console.").
		And("If that does not help, open a ticket with Alibaba Cloud.")
}
