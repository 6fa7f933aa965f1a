// Keeps address sets with libovsdb, the OVSDB client of ovn-kubernetes, as the ovn-writer does with its own client.
//
// Its argument is a northbound database. Each JSON value on its input is a list of events: {"name": "set1",
// "addresses": ["192.0.2.1"]} says which addresses a set must have. For each list it writes a line with the
// nanoseconds from the decoded events to the last commit. Like the ovn-writer it compares a set with its copy of the
// database, changes only the addresses that differ, and puts 1,000 sets into a transaction.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const setsOfTransaction = 1000

type event struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "libovsdb:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) != 2 {
		return errors.New("usage: libovsdb REMOTE")
	}
	database, err := connect(ctx, os.Args[1])
	if err != nil {
		return err
	}
	defer database.Close()
	decoder := json.NewDecoder(os.Stdin)
	for {
		var events []event
		if err := decoder.Decode(&events); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		start := time.Now()
		for len(events) > 0 {
			batch := events[:min(len(events), setsOfTransaction)]
			if err := apply(ctx, database, batch); err != nil {
				return err
			}
			events = events[len(batch):]
		}
		fmt.Println(time.Since(start).Nanoseconds())
	}
}

// connect returns once the tables were read.
func connect(ctx context.Context, remote string) (client.Client, error) {
	tables, err := databaseModel()
	if err != nil {
		return nil, err
	}
	silent := logr.Discard()
	database, err := client.NewOVSDBClient(tables, client.WithEndpoint(remote), client.WithLogger(&silent))
	if err != nil {
		return nil, err
	}
	if err := database.Connect(ctx); err != nil {
		return nil, err
	}
	_, err = database.Monitor(ctx, database.NewMonitor(monitored()...))
	return database, err
}

// apply carries out one transaction.
func apply(ctx context.Context, database client.Client, events []event) error {
	var operations []ovsdb.Operation
	for index := range events {
		ofSet, err := difference(ctx, database, &events[index])
		if err != nil {
			return err
		}
		operations = append(operations, ofSet...)
	}
	if len(operations) == 0 {
		return nil
	}
	results, err := database.Transact(ctx, operations...)
	if err != nil {
		return err
	}
	_, err = ovsdb.CheckOperationResults(results, operations)
	return err
}

// difference returns what a set lacks, or the whole set if there is none.
func difference(ctx context.Context, database client.Client, event *event) ([]ovsdb.Operation, error) {
	wanted := make(map[string]struct{}, len(event.Addresses))
	for _, text := range event.Addresses {
		address := net.ParseIP(text)
		if address == nil {
			return nil, fmt.Errorf("%q is no address", text)
		}
		wanted[address.String()] = struct{}{}
	}
	set := &addressSet{Name: event.Name}
	err := database.Get(ctx, set)
	if errors.Is(err, client.ErrNotFound) {
		set.Addresses, set.ExternalIDs = event.Addresses, ownRows
		return database.Create(set)
	}
	if err != nil {
		return nil, err
	}
	var surplus []string
	for _, address := range set.Addresses {
		if _, ok := wanted[address]; ok {
			delete(wanted, address)
		} else {
			surplus = append(surplus, address)
		}
	}
	missing := make([]string, 0, len(wanted))
	for address := range wanted {
		missing = append(missing, address)
	}
	var mutations []model.Mutation
	if len(missing) > 0 {
		mutations = append(mutations, mutation(set, ovsdb.MutateOperationInsert, missing))
	}
	if len(surplus) > 0 {
		mutations = append(mutations, mutation(set, ovsdb.MutateOperationDelete, surplus))
	}
	if len(mutations) == 0 {
		return nil, nil
	}
	return database.Where(set).Mutate(set, mutations...)
}

func mutation(set *addressSet, mutator ovsdb.Mutator, addresses []string) model.Mutation {
	return model.Mutation{Field: &set.Addresses, Mutator: mutator, Value: addresses}
}
