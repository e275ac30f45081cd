// Empty serves nothing but 200 on the port that PORT names. It is what the start
// of a function program is compared with.
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
