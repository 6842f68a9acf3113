// SPDX-License-Identifier: BSD-3-Clause

import java.io.FileInputStream;
import java.io.InputStream;
import java.net.SocketAddress;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.ClientMode;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionObserver;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.internal.OperationFuture;

/**
 * Amazon's spymemcached over TLS, for test_tls_clients.py: Client HOST:PORT CA. Ends with status 0 and
 * "ok", or says what went wrong.
 */
public final class Client {
    private static final long TIMEOUT_MS = 20000;

    private static SSLContext trusting(String authority) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream file = new FileInputStream(authority)) {
            store.setCertificateEntry(
                    "ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trust =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    /** Whether the first connection was made, rather than lost. */
    private static final class First implements ConnectionObserver {
        final CompletableFuture<Boolean> made = new CompletableFuture<>();

        @Override
        public void connectionEstablished(SocketAddress address, int count) {
            made.complete(true);
        }

        @Override
        public void connectionLost(SocketAddress address) {
            made.complete(false);
        }
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    private static void run(MemcachedClient client, First first) throws Exception {
        expect(first.made.get(TIMEOUT_MS, TimeUnit.MILLISECONDS), "no connection");
        expect(client.set("k", 0, "value").get(TIMEOUT_MS, TimeUnit.MILLISECONDS), "set");
        expect("value".equals(client.get("k")), "get");
        expect(client.delete("k").get(TIMEOUT_MS, TimeUnit.MILLISECONDS), "delete");
        expect(client.get("k") == null, "a deleted item");
        byte[] large = new byte[1000000];
        new java.util.Random(7).nextBytes(large);
        expect(client.set("large", 0, large).get(TIMEOUT_MS, TimeUnit.MILLISECONDS), "large set");
        expect(Arrays.equals(large, (byte[]) client.get("large")), "large get");
        List<OperationFuture<Boolean>> stored = new ArrayList<>();
        List<String> keys = new ArrayList<>();
        for (int number = 0; number < 1000; number++) {
            keys.add("key" + number);
            stored.add(client.set("key" + number, 0, "key" + number));
        }
        for (OperationFuture<Boolean> future : stored) {
            expect(future.get(TIMEOUT_MS, TimeUnit.MILLISECONDS), "many sets");
        }
        Map<String, Object> found = client.getBulk(keys);
        for (String key : keys) {
            expect(key.equals(found.get(key)), key);
        }
    }

    public static void main(String[] args) throws Exception {
        First first = new First();
        MemcachedClient client = new MemcachedClient(
                new ConnectionFactoryBuilder()
                        .setClientMode(ClientMode.Static)
                        .setInitialObservers(Collections.singleton(first))
                        .setOpTimeout(TIMEOUT_MS)
                        .setSSLContext(trusting(args[1]))
                        .setHostnameForTlsVerification(args[0].substring(0, args[0].indexOf(':')))
                        .build(),
                AddrUtil.getAddresses(args[0]));
        try {
            run(client, first);
            System.out.println("ok");
        } catch (Exception error) {
            System.err.println(error);
            System.exit(1);
        } finally {
            client.shutdown();
        }
    }
}
