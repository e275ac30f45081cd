package core

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Documented returns an error that the API reference names, with its text.
func Documented(code string) *Failure {
	f, ok := usualErrors[code]
	if !ok {
		panic("sim: no text for " + code)
	}
	return &f
}

// Usual returns an error that any action may answer with; nothing if code is none.
func Usual(code string) (Failure, bool) {
	f, ok := usualErrors[code]
	return f, ok
}

// UsualCodes returns the codes of the errors that any action may answer with, sorted.
func UsualCodes() []string { return slices.Sorted(maps.Keys(usualErrors)) }

// usualErrors are errors by their codes, with the texts of the API reference,
// misspelt as they are there:
// https://www.alibabacloud.com/help/en/sdk/developer-reference/common-error-codes
// and the common error codes of CLB. What a load balancer cannot be bought for
// is a gate of the account, too.
var usualErrors = func() map[string]Failure {
	m := map[string]Failure{}
	for line := range strings.SplitSeq(errorTexts, "\n") {
		code, text, ok := strings.Cut(line, " ")
		if ok {
			m[code] = Failure{Status: errorStatus(code), Code: code, Message: text}
		}
	}
	return m
}()

// errorStatus returns the HTTP status of an error, which is 400 for most.
func errorStatus(code string) int {
	switch code {
	case "ServiceUnavailable":
		return http.StatusServiceUnavailable
	case "InternalError":
		return http.StatusInternalServerError
	case "BackendServer.configuring":
		return http.StatusConflict
	case "Forbidden", "Forbidden.RAM", "NoPermission", "NotAuthorized", "Forbbiden.SubUser", "Forbidden.NoPermission":
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

const errorTexts = `
Throttling Request was denied due to request throttling.
Throttling.User Request was denied due to user flow control.
Throttling.Api Request was denied due to api flow control.
ServiceUnavailable The request has failed due to a temporary failure of the server.
InternalError The request processing has failed due to some unknown error, exception or failure.
InvalidSecurityToken.Expired Specified SecurityToken is expired.
Forbidden User not authorized to operate on the specified resource.
Forbidden.RAM User not authorized to operate on the specified resource, or this API doesn't support RAM.
Forbbiden.SubUser TUser not authorized to operate on the specified resource as your account is created by another user.
Forbidden.NoPermission Authentication is failed for NoPermission.
NoPermission You are not authorized to do this action. You should be authorized by RAM.
NotAuthorized You are not authorized to do this action. You should be authorized by RAM.
NoPermission.AliyunServiceRoleForSlbEipAccess You are not authorized to create the service linked role. Role Name: AliyunServiceRoleForSlbEipAccess. Service Name: eipaccess.slb.aliyuncs.com. Please ensure the user has been granted the ram:CreateServiceLinkedRole permission
SystemBusy The system is busy.
VpcSystemBusy Invoke vpc system busy, please retry later.
OperationBusy The operation is busy.
OperationFailed.TokenIsProcessing The operation is failed, because the Client Token is processing.
OperationFailed.ListenerStatusNotSupport The operation is failed because of the status of the listener.
ServiceIsConfiguring A previous configuration is pending; please try again later.
VServerGroupProcessing A previous configuration of the VServer group is pending; please try again later.
BackendServer.configuring A previous configuration of the load balancer is pending; please try again later.
ProcessingSameRequest The same request is being processed. Please try later.
Conflict.Lock The Lock [loadbalancer] is conflict.
ORDER.ARREARAGE The account is arrearage.
ARREARAGE The Account has some ARREARAGE.
AccountHasArrearage Account has some arrearage.
ORDER.INST_HAS_UNSETTLED_BILLS The instance has unsettled bills.
OperationFailed.UnpaidBillsExist The account has unpaid bills. Please pay your overdue bill first.
PAY.INSUFFICIENT_BALANCE Your account does not have enough balance.
PAYFOR.CREDIT_PAY_INSUFFICIENT_BALANCE Your account does not have enough balance.
InsufficientBalance Your account does not have enough balance.
INSUFFICIENT_BALANCE The Acount Balance is insufficient.
PayInsufficientBalance Your account balance is insufficient.
InsufficientAvailableQuota Your account available balance is less than 0. Please recharge before attempting to make a purchase.
OperationFailed.CashBookInsufficient No payment method is specified for your account, We recommend that you add a payment method or maintain a prepayment balance.
ORDER.NO_REAL_NAME_AUTHENTICATION The account is not real name authentication.
NO_REAL_NAME_AUTHENTICATION The Account should be Real Name Authenticated.
NoNameAuthentication Account should be Name Authenticated.
RISK.RISK_CONTROL_REJECTION The Account is rejected by risk control system.
OperationForbidden.AccountRiskReject The operation failed because of account risk reject.
HighRiskOperationDenied The operation is denied because of high risk.
OrderFailed The Account failed to create order.
CreateOrderFailed The Account failed to create order.
ORDER.INST_HAS_UNPAID_ORDER The instance has unpaid order.
ORDER.INSTANCE_HAS_INACTIVE_CHANGE The instance has inactive change.
ORDER.ACCOUNT_STATUS_ILLEGAL The order account status is illegal.
ORDER.OPEND The account order is open to buy loadbalancer.
ORDER.QUOTA_EXCEEDED The order quota exceeded.
ORDER.QUANTITY_INVALID The maximum number of SLB instances is exceeded.
Operation.NotAllowed Operation Denied. Unfinished order exists.
UserProfileNotComplete User profile is not completed.
OperationFailed.InvalidAccount The account information is incomplete.
PAY.MAYI_WITHHOLDING_AGREEMENT_ILLEGAL Your account did not sign a withholding agreement or no coupons in Alipay.
PAY.NO_CREDIT_CARD The Acount doesn't have Credit Card.
NOCARD User Profile doesn't have card.
UserNotAllowed The user is not allowed, please submit the application.
TradeWaitDistributorAudit The trade needs distributor to audit.
OperationForbidden.QuotaLimit The operation failed because of quota limit of shared loadbalancers.
OperationFailed.ZoneResourceLimit The operation failed because of resource limit of the specified zone.
OperationFailed.RegionResourceLimit The operation failed because of resource limit of the specified region.
PRODUCT.NOT_AVAILABLE_IZ The Instance zone id doesn t support
PRODUCT.INSUFFICIENT_STOCK The product stock is insufficient.
RegionOrZonesNotSupportIpv6 The specified region or master/slave zones does not support ipv6.
LBNotSupportIpv6Backend The specified loadbalancer does not support ipv6 backend.
ShareSlbHaltSales The share instance has been discontinued.
MissingParam.LoadBalancerSpec The param LoadBalancerSpec is required.
VSwitchAvailableIpNotExist The specified VSwitch has no availabe ip.
SubnetIpExhaust No subnet IP addresses are available.
VSwitchNotExist The specified VSwitch does not exist.
InvalidVSwitchId.NotFound The specified vSwitch instance is invalid.
ObtainIpFail The specified BackendServers is invalid; some of the specified backend servers do not exist or are not running.
InvalidServerId.NotFound The specified server is not found.
InvalidBackendServers.Inconsistent All BackendServers on one Specified LoadBalancer have to be in the same vpc or all classic
RspoolVipExist there are vips associating with this vServer group.
RspoolRuleExist there are rules associating with this vServer group.
NetworkConflict there are network conflicts in specified parameter.
InstanceBackendServerNumberOverLimit The backend server number has reached to the quota limit of this load balancers
OverQuota Instance num exceeded Quota.
ListenerNumberOverLimit The maximum number of listeners is exceeded.
ListenerAlreadyExists A listener with the specified port already exists.
InvalidParameter.ListenerPortConflict There is conflict listener port exists.
PortProtocolConflict The specified ListenerPort is conflict with other listener.
OperationDenied.DeleteProtectionIsOn The loadbalancer can not be deleted due to DeleteProtection is enabled.
InvalidChargeType The prepay loadBalancer does not support this action.
OperationDenied.PayByCLCU The operation is not allowed because the instanceChargeType of loadbalancer is PayByCLCU.
Forbidden.LcuToSpec User does not have permission modify InstanceChargeType to spec.
`
