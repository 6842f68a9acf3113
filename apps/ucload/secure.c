/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS of a connection; see secure.h. */
#include "secure.h"

#include "base/base.h"

/* A tls_emit. */
static bool emit(void *ctx, const uint8_t *data, uint32_t len)
{
    struct conn *conn = ctx;

    return conn->client->ops->put(conn->client, conn, data, len) >= 0;
}

static int fail(struct client *client, const struct conn *conn)
{
    return client_fail(client, "TLS with %s: %s", client->plan->server_text,
                       tls_session_error(conn->tls));
}

int secure_begin(struct client *client, struct conn *conn)
{
    struct tls_session *before = conn->tls;

    conn->tls = tls_session_open(client->plan->tls, client->plan->tls_resume ? NULL : client->keys,
                                 TLS_PEER_AS_CONFIGURED, emit, conn);
    if (conn->tls && before && client->plan->tls_resume)
        tls_session_resume(conn->tls, before);
    if (before)
        tls_session_close(before);
    if (!conn->tls)
        return client_fail(client, "no memory for TLS");
    return tls_session_start(conn->tls) < 0 ? fail(client, conn) : 0;
}

int secure_received(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    struct tls_session *session = conn->tls;
    enum tls_result result;
    uint32_t used, plain_len;

    /* A connection that is reopened has another session. */
    for (; len > 0 && conn->tls == session; data += used, len -= used) {
        result = tls_session_read(session, data, len, &used, client->plain, &plain_len);
        if (result == TLS_FAILED)
            return fail(client, conn);
        if (result == TLS_CLOSED)
            return client_fail(client, "the connection to %s was lost: the server has closed it",
                               client->plan->server_text);
        if (!conn->is_open && !conn->is_logging_in && tls_session_is_established(session) &&
            client_opened(client, conn) < 0)
            return -1;
        if (result == TLS_DATA && client_received(client, conn, client->plain, plain_len) < 0)
            return -1;
    }
    return 0;
}

int secure_send(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    uint32_t n;

    for (; len > 0; data += n, len -= n) {
        n = u_min32(len, TLS_RECORD_MAX);
        if (tls_session_write(conn->tls, data, n) < 0)
            return fail(client, conn);
    }
    return 0;
}

int secure_prepare(struct client *client, const struct conn *conn)
{
    return tls_session_prepare(conn->tls) < 0 ? fail(client, conn) : 0;
}

uint32_t secure_seal(struct client *client, const struct conn *conn, uint8_t *record, uint32_t len)
{
    uint32_t sealed = tls_session_seal(conn->tls, record, len);

    if (sealed == 0)
        (void)fail(client, conn);
    return sealed;
}

void secure_end(struct conn *conn)
{
    if (conn->tls)
        tls_session_close(conn->tls);
    conn->tls = NULL;
}
