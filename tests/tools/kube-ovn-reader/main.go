// The reader of kube-ovn-controller, with kube-OVN's API types alone.
//
// It reads a list of DNSNameResolvers (kubeovn.io/v1) as JSON from its input. For each it writes a line with the
// addresses that kube-ovn-controller takes from the status: {"name": "web-1", "addresses": ["192.0.2.1"]}.
// The module of kube-OVN is not on the proxy for Go modules, so reader.go and v1 have its code.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	kubeovnv1 "kube-ovn-reader.tools/v1"
)

type read struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	var list kubeovnv1.DNSNameResolverList
	if err := decoder.Decode(&list); err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	for i := range list.Items {
		v4, v6, err := getResolvedAddressesFromDNSNameResolver(&list.Items[i])
		if err != nil {
			return err
		}
		if err := encoder.Encode(read{list.Items[i].Name, append(v4, v6...)}); err != nil {
			return err
		}
	}
	return nil
}
