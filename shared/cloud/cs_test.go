package cloud

import "testing"

func TestAPIServer(t *testing.T) {
	t.Parallel()
	for endpoints, want := range map[string]string{
		`{"api_server_endpoint":"https://203.0.113.1:6443","intranet_api_server_endpoint":"https://192.168.0.250:6443"}`: "192.168.0.250",
		`{"intranet_api_server_endpoint":"https://[fd00::1]:6443"}`:                                                      "fd00::1",
		`{"api_server_endpoint":"https://203.0.113.1:6443"}`:                                                             "",
		`{"intranet_api_server_endpoint":"https://%"}`:                                                                   "",
		``:     "",
		`null`: "",
		`[]`:   "",
	} {
		if got := apiServer(endpoints); got != want {
			t.Errorf("%s: got %q, want %q", endpoints, got, want)
		}
	}
}
