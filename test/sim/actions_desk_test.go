package sim_test

import (
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/bssopenapi"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/workorder"
)

// deskCalls are the calls of quotas, tickets and money.
func deskCalls() []actionCall {
	const product, version = "Workorder", "2021-06-10"
	return []actionCall{
		on("bss:DescribeAcccount", bssopenapi.CreateQueryAccountBalanceRequest, bssopenapi.CreateQueryAccountBalanceResponse, nil),
		on("quotas:ListProducts", quotas.CreateListProductsRequest, quotas.CreateListProductsResponse, nil),
		on("quotas:ListProductQuotaDimensions", quotas.CreateListProductQuotaDimensionsRequest, quotas.CreateListProductQuotaDimensionsResponse, func(r *quotas.ListProductQuotaDimensionsRequest) {
			r.ProductCode = "slb"
		}),
		on("quotas:ListProductQuotas", quotas.CreateListProductQuotasRequest, quotas.CreateListProductQuotasResponse, func(r *quotas.ListProductQuotasRequest) {
			r.ProductCode = "slb"
		}),
		on("quotas:GetProductQuota", quotas.CreateGetProductQuotaRequest, quotas.CreateGetProductQuotaResponse, func(r *quotas.GetProductQuotaRequest) {
			r.ProductCode, r.QuotaActionCode = "slb", "q_a"
		}),
		on("quotas:CreateQuotaApplication", quotas.CreateCreateQuotaApplicationRequest, quotas.CreateCreateQuotaApplicationResponse, func(r *quotas.CreateQuotaApplicationRequest) {
			r.ProductCode, r.QuotaActionCode = "slb", "q_a"
			r.DesireValue, r.Reason = requests.NewFloat(60), "more"
		}),
		on("quotas:GetQuotaApplication", quotas.CreateGetQuotaApplicationRequest, quotas.CreateGetQuotaApplicationResponse, func(r *quotas.GetQuotaApplicationRequest) {
			r.ApplicationId = "app-a"
		}),
		on("quotas:ListQuotaApplications", quotas.CreateListQuotaApplicationsRequest, quotas.CreateListQuotaApplicationsResponse, nil),
		on("quotas:CreateQuotaAlarm", quotas.CreateCreateQuotaAlarmRequest, quotas.CreateCreateQuotaAlarmResponse, func(r *quotas.CreateQuotaAlarmRequest) {
			r.ProductCode, r.QuotaActionCode = "slb", "q_a"
			r.AlarmName, r.ThresholdPercent = "a", requests.NewFloat(80)
		}),
		on("workorder:CreateTicket", workorder.CreateCreateTicketRequest, workorder.CreateCreateTicketResponse, func(r *workorder.CreateTicketRequest) {
			r.Severity, r.Description, r.CategoryId = requests.NewInteger(1), "d", "53811"
		}),
		on("workorder:ListTickets", workorder.CreateListTicketsRequest, workorder.CreateListTicketsResponse, func(r *workorder.ListTicketsRequest) {
			r.PageNumber, r.PageSize = requests.NewInteger(1), requests.NewInteger(10)
		}),
		on("workorder:ListTicketNotes", workorder.CreateListTicketNotesRequest, workorder.CreateListTicketNotesResponse, func(r *workorder.ListTicketNotesRequest) {
			r.TicketId = "T1"
		}),
		on("workorder:ReplyTicket", workorder.CreateReplyTicketRequest, workorder.CreateReplyTicketResponse, func(r *workorder.ReplyTicketRequest) {
			r.TicketId, r.Content, r.Encrypt = "T1", "c", requests.NewBoolean(false)
		}),
		on("workorder:CloseTicket", workorder.CreateCloseTicketRequest, workorder.CreateCloseTicketResponse, func(r *workorder.CloseTicketRequest) {
			r.TicketId = "T1"
		}),
		on("workorder:ListProducts", workorder.CreateListProductsRequest, workorder.CreateListProductsResponse, nil),
		on("workorder:ListCategories", workorder.CreateListCategoriesRequest, workorder.CreateListCategoriesResponse, func(r *workorder.ListCategoriesRequest) {
			r.ProductId = requests.NewInteger(18519)
		}),
		plainly("workorder:GetTicket", product, version, "GetTicket", "TicketId", "T1"),
		plainly("workorder:ReopenTicket", product, version, "ReopenTicket", "TicketId", "T2", "Content", "again"),
		plainly("workorder:EvaluateTicket", product, version, "EvaluateTicket", "TicketId", "T2", "Solved", "true", "Score", "5"),
		plainly("workorder:GetAttachmentUploadUrl", product, version, "GetAttachmentUploadUrl", "FileName", "a.png"),
	}
}
