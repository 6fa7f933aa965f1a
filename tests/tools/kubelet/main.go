// The streaming side of a kubelet: port-forwards and logs of pods that a test runs as processes.
//
// The API server connects to it as to a node. A file FOLDER/NAMESPACE/POD.json, read at each request, says where the
// ports of a pod are on 127.0.0.1, and where the logs of its containers are:
//
//	{"ports": {"9092": 12345}, "logs": {"collector": "/path/to/log"}}
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// The times are those of pkg/kubelet/server/server.go: the idle time-out is that of its default configuration.
const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
)

type pod struct {
	Ports map[string]uint16 `json:"ports"`
	Logs  map[string]string `json:"logs"`
}

type node struct{ folder string }

// read returns false if the node has no such pod.
func (n node) read(namespace, name string) (pod, bool) {
	var found pod
	text, err := os.ReadFile(filepath.Join(n.folder, filepath.Base(namespace), filepath.Base(name)+".json"))
	return found, err == nil && json.Unmarshal(text, &found) == nil
}

// forwarder connects to the ports of one pod.
type forwarder pod

func (f forwarder) PortForward(ctx context.Context, name, uid string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	// The error is as containerd words it.
	refused := func(err error) error {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace %q: %w", port, name, err)
	}
	mapped, found := f.Ports[strconv.Itoa(int(port))]
	if !found {
		return refused(fmt.Errorf("connect: connection refused"))
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", mapped))
	if err != nil {
		return refused(err)
	}
	defer connection.Close()
	ended := make(chan struct{}, 2)
	go func() {
		io.Copy(connection, stream)
		connection.(*net.TCPConn).CloseWrite()
		ended <- struct{}{}
	}()
	go func() {
		io.Copy(stream, connection)
		stream.Close()
		ended <- struct{}{}
	}()
	for range 2 {
		select {
		case <-ended:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (n node) portForward(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found, exists := n.read(namespace, name)
	if !exists {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	portforward.ServePortForward(w, r, forwarder(found), name, "", options, idleTimeout, creationTimeout,
		portforward.SupportedProtocols)
}

// logs serves the last lines and bytes of a log, as its query asks.
func (n node) logs(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	found, _ := n.read(namespace, name)
	text, err := os.ReadFile(found.Logs[container])
	if err != nil || r.FormValue("previous") == "true" {
		http.Error(w, fmt.Sprintf("container %q in pod %q has no log", container, name), http.StatusBadRequest)
		return
	}
	if tail, err := strconv.Atoi(r.FormValue("tailLines")); err == nil {
		lines := bytes.SplitAfter(text, []byte("\n"))
		text = bytes.Join(lines[max(0, len(lines)-1-tail):], nil)
	}
	if limit, err := strconv.Atoi(r.FormValue("limitBytes")); err == nil {
		text = text[:min(len(text), limit)]
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Write(text)
}

func main() {
	listen := flag.String("listen", "", "the address")
	certificate := flag.String("certificate", "", "the file of the certificate")
	key := flag.String("key", "", "the file of the key")
	folder := flag.String("pods", "", "the folder with the pods")
	flag.Parse()
	serves := node{*folder}
	routes := http.NewServeMux()
	routes.HandleFunc("/portForward/{namespace}/{pod}", serves.portForward)
	routes.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", serves.logs)
	// A connection of HTTP/2 cannot be upgraded.
	server := http.Server{
		Addr: *listen, Handler: routes,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}
