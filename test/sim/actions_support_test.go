package sim_test

import (
	"github.com/aliyun/alibaba-cloud-sdk-go/services/bssopenapi"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/workorder"
)

func supportCalls() []actionCall {
	const product, version = "Workorder", "2021-06-10"
	return []actionCall{
		on("bss:DescribeAcccount", bssopenapi.CreateQueryAccountBalanceRequest, bssopenapi.CreateQueryAccountBalanceResponse),
		on("quotas:ListProducts", quotas.CreateListProductsRequest, quotas.CreateListProductsResponse),
		on("quotas:ListProductQuotaDimensions", quotas.CreateListProductQuotaDimensionsRequest, quotas.CreateListProductQuotaDimensionsResponse,
			"ProductCode", "slb"),
		on("quotas:ListProductQuotas", quotas.CreateListProductQuotasRequest, quotas.CreateListProductQuotasResponse, "ProductCode", "slb"),
		on("quotas:GetProductQuota", quotas.CreateGetProductQuotaRequest, quotas.CreateGetProductQuotaResponse, "ProductCode", "slb", "QuotaActionCode", "q_a"),
		on("quotas:CreateQuotaApplication", quotas.CreateCreateQuotaApplicationRequest, quotas.CreateCreateQuotaApplicationResponse, "ProductCode", "slb",
			"QuotaActionCode", "q_a", "DesireValue", "60", "Reason", "more"),
		on("quotas:GetQuotaApplication", quotas.CreateGetQuotaApplicationRequest, quotas.CreateGetQuotaApplicationResponse, "ApplicationId", "app-a"),
		on("quotas:ListQuotaApplications", quotas.CreateListQuotaApplicationsRequest, quotas.CreateListQuotaApplicationsResponse),
		on("quotas:CreateQuotaAlarm", quotas.CreateCreateQuotaAlarmRequest, quotas.CreateCreateQuotaAlarmResponse, "ProductCode", "slb", "QuotaActionCode", "q_a",
			"AlarmName", "a", "ThresholdPercent", "80"),
		on("workorder:CreateTicket", workorder.CreateCreateTicketRequest, workorder.CreateCreateTicketResponse, "Severity", "1", "Description", "d",
			"CategoryId", "53811"),
		on("workorder:ListTickets", workorder.CreateListTicketsRequest, workorder.CreateListTicketsResponse, "PageNumber", "1", "PageSize", "10"),
		on("workorder:ListTicketNotes", workorder.CreateListTicketNotesRequest, workorder.CreateListTicketNotesResponse, "TicketId", "T1"),
		on("workorder:ReplyTicket", workorder.CreateReplyTicketRequest, workorder.CreateReplyTicketResponse, "TicketId", "T1", "Content", "c", "Encrypt", "false"),
		on("workorder:CloseTicket", workorder.CreateCloseTicketRequest, workorder.CreateCloseTicketResponse, "TicketId", "T1"),
		on("workorder:ListProducts", workorder.CreateListProductsRequest, workorder.CreateListProductsResponse),
		on("workorder:ListCategories", workorder.CreateListCategoriesRequest, workorder.CreateListCategoriesResponse, "ProductId", "18519"),
		plainly("workorder:GetTicket", product, version, "GetTicket", "TicketId", "T1"),
		plainly("workorder:ReopenTicket", product, version, "ReopenTicket", "TicketId", "T2", "Content", "again"),
		plainly("workorder:EvaluateTicket", product, version, "EvaluateTicket", "TicketId", "T2", "Solved", "true", "Score", "5"),
		plainly("workorder:GetAttachmentUploadUrl", product, version, "GetAttachmentUploadUrl", "FileName", "a.png"),
	}
}
