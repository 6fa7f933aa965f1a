"""Keeps address sets with the IDL of Open vSwitch for Python, as tests/tools/libovsdb does with libovsdb.

Its arguments are a northbound database and the file of its schema. Each line of its input is a JSON list of events:
{"name": "set1", "addresses": ["192.0.2.1"]} says which addresses a set must have. For each line it prints the
nanoseconds from the decoded events to the commit. It changes only the addresses that differ.
"""

import json
import os
import sys
import time

import ovs.db.idl
import ovs.poller

# The tables and columns that the ovn-writer monitors.
COLUMNS = {
    "Address_Set": ["name", "addresses", "external_ids"],
    "ACL": ["action", "direction", "external_ids", "match", "priority"],
    "QoS": ["direction", "external_ids", "match", "priority"],
    "Logical_Router_Policy": ["action", "external_ids", "match", "priority"],
    "NAT": ["external_ids"],
}

# The rows that this program makes. No other client monitors them.
OWN = {"k8s.ovn.org/owner-type": "ovs-idl"}


def connect(remote, schema):
    helper = ovs.db.idl.SchemaHelper(schema)
    for table, columns in COLUMNS.items():
        helper.register_columns(table, columns)
    idl = ovs.db.idl.Idl(remote, helper)
    idl.cond_change("Address_Set", [["external_ids", "includes", ["map", [list(pair) for pair in OWN.items()]]]])
    while not idl.has_ever_connected():
        if not idl.run():
            poller = ovs.poller.Poller()
            idl.wait(poller)
            poller.block()
    return idl


def apply(idl, events):
    rows = {row.name: row for row in idl.tables["Address_Set"].rows.values()}
    transaction = ovs.db.idl.Transaction(idl)
    for event in events:
        wanted = set(event["addresses"])
        row = rows.get(event["name"])
        if row is None:
            row = transaction.insert(idl.tables["Address_Set"])
            row.name = event["name"]
            row.external_ids = OWN
            row.addresses = sorted(wanted)
            continue
        stored = set(row.addresses)
        for address in wanted - stored:
            row.addvalue("addresses", address)
        for address in stored - wanted:
            row.delvalue("addresses", address)
    status = transaction.commit_block()
    if status not in (transaction.SUCCESS, transaction.UNCHANGED):
        raise RuntimeError(f"the transaction is {status}: {transaction.get_error()}")


def main():
    idl = connect(*sys.argv[1:3])
    unread = b""
    while True:
        idl.run()
        poller = ovs.poller.Poller()
        idl.wait(poller)
        poller.fd_wait(0, ovs.poller.POLLIN)
        poller.block()
        if not is_readable(0):
            continue
        read = os.read(0, 1 << 20)
        if not read:
            return
        *lines, unread = (unread + read).split(b"\n")
        for line in lines:
            events = json.loads(line)
            start = time.perf_counter_ns()
            apply(idl, events)
            print(time.perf_counter_ns() - start, flush=True)


def is_readable(fd):
    poller = ovs.poller.SelectPoll()
    poller.register(fd, ovs.poller.POLLIN)
    return bool(poller.poll(0))


main()
