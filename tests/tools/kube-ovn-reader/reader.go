// From pkg/controller/dns_name_resolver.go of kubeovn/kube-ovn at 1533681d7a6b3dbdd7e8870fa70f0dc6aa49a82a:
// one function, unchanged. Copyright the kube-OVN authors, Apache License 2.0.
package main

import (
	"net"

	"k8s.io/klog/v2"

	kubeovnv1 "kube-ovn-reader.tools/v1"
)

func getResolvedAddressesFromDNSNameResolver(dnsNameResolver *kubeovnv1.DNSNameResolver) ([]string, []string, error) {
	var v4Addresses, v6Addresses []string

	if len(dnsNameResolver.Status.ResolvedNames) == 0 {
		klog.V(3).Infof("No resolved names found in DNSNameResolver %s status", dnsNameResolver.Name)
		return v4Addresses, v6Addresses, nil
	}

	for _, resolvedName := range dnsNameResolver.Status.ResolvedNames {
		if resolvedName.ResolutionFailures > 0 {
			klog.Warningf("DNSNameResolver %s has %d resolution failures for %s",
				dnsNameResolver.Name, resolvedName.ResolutionFailures, resolvedName.DNSName)
			continue
		}

		for _, resolvedAddr := range resolvedName.ResolvedAddresses {
			ip := net.ParseIP(resolvedAddr.IP)
			if ip == nil {
				klog.Warningf("Invalid IP address in DNSNameResolver %s: %s", dnsNameResolver.Name, resolvedAddr.IP)
				continue
			}

			if ip.To4() != nil {
				v4Addresses = append(v4Addresses, resolvedAddr.IP)
			} else {
				v6Addresses = append(v6Addresses, resolvedAddr.IP)
			}
		}
	}

	klog.V(3).Infof("Extracted from DNSNameResolver %s: IPv4=%v, IPv6=%v",
		dnsNameResolver.Name, v4Addresses, v6Addresses)
	return v4Addresses, v6Addresses, nil
}
