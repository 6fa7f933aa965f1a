package main

import (
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// The tables and columns of the northbound database that the ovn-writer monitors.

type addressSet struct {
	UUID        string            `ovsdb:"_uuid"`
	Addresses   []string          `ovsdb:"addresses"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	Name        string            `ovsdb:"name"`
}

type acl struct {
	UUID        string            `ovsdb:"_uuid"`
	Action      string            `ovsdb:"action"`
	Direction   string            `ovsdb:"direction"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	Match       string            `ovsdb:"match"`
	Priority    int               `ovsdb:"priority"`
}

type qos struct {
	UUID        string            `ovsdb:"_uuid"`
	Direction   string            `ovsdb:"direction"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	Match       string            `ovsdb:"match"`
	Priority    int               `ovsdb:"priority"`
}

type routerPolicy struct {
	UUID        string            `ovsdb:"_uuid"`
	Action      string            `ovsdb:"action"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
	Match       string            `ovsdb:"match"`
	Priority    int               `ovsdb:"priority"`
}

// Of NAT the ovn-writer reads a match, too, which OVN has since 24.03.
type nat struct {
	UUID        string            `ovsdb:"_uuid"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

func databaseModel() (model.ClientDBModel, error) {
	return model.NewClientDBModel("OVN_Northbound", map[string]model.Model{
		"Address_Set":           &addressSet{},
		"ACL":                   &acl{},
		"QoS":                   &qos{},
		"Logical_Router_Policy": &routerPolicy{},
		"NAT":                   &nat{},
	})
}

// The rows that this program makes. No other client monitors them.
var ownRows = map[string]string{"k8s.ovn.org/owner-type": "libovsdb"}

// monitored has the whole tables of rules, and this program's own address sets.
func monitored() []client.MonitorOption {
	set := &addressSet{}
	own := model.Condition{Field: &set.ExternalIDs, Function: ovsdb.ConditionIncludes, Value: ownRows}
	return []client.MonitorOption{
		client.WithConditionalTable(set, []model.Condition{own}),
		client.WithTable(&acl{}),
		client.WithTable(&qos{}),
		client.WithTable(&routerPolicy{}),
		client.WithTable(&nat{}),
	}
}
