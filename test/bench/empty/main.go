// Empty is an HTTP server that answers 200 on the port in PORT, as the baseline for the start of function programs.
package main

import (
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	if err := http.ListenAndServe(":"+os.Getenv("PORT"), nil); err != nil {
		os.Exit(1)
	}
}
