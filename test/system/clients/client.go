// SPDX-License-Identifier: BSD-3-Clause

// gomemcache over TLS, for test_tls_clients.py: client HOST:PORT CA. Ends with status 0 and "ok", or
// says what went wrong.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expect(item *memcache.Item, err error, value []byte) {
	check(err)
	if !bytes.Equal(item.Value, value) {
		check(fmt.Errorf("another value of %s", item.Key))
	}
}

func connect(address, authority string) *memcache.Client {
	certificates, err := os.ReadFile(authority)
	check(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificates) {
		check(fmt.Errorf("no certificate in %s", authority))
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots}}
	client := memcache.New(address)
	client.Timeout = 20 * time.Second
	client.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, addr)
	}
	return client
}

func main() {
	client := connect(os.Args[1], os.Args[2])
	value := []byte("value")
	check(client.Set(&memcache.Item{Key: "k", Value: value, Flags: 7}))
	item, err := client.Get("k")
	expect(item, err, value)
	check(client.Delete("k"))
	if _, err := client.Get("k"); err != memcache.ErrCacheMiss {
		check(fmt.Errorf("a deleted item: %v", err))
	}
	large := make([]byte, 1000000)
	for i := range large {
		large[i] = byte(i * 7)
	}
	check(client.Set(&memcache.Item{Key: "large", Value: large}))
	item, err = client.Get("large")
	expect(item, err, large)
	keys := []string{}
	for i := 0; i < 1000; i++ {
		key := fmt.Sprintf("key%d", i)
		check(client.Set(&memcache.Item{Key: key, Value: []byte(key)}))
		keys = append(keys, key)
	}
	items, err := client.GetMulti(keys)
	check(err)
	for _, key := range keys {
		if items[key] == nil {
			check(fmt.Errorf("no %s", key))
		}
		expect(items[key], nil, []byte(key))
	}
	fmt.Println("ok")
}
