/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS of ucping; see security.h. */
#include "security.h"

#include <stdlib.h>

#include "ping.h"

/* A server requires certificates of clients if it knows who signs them. */
static struct tls_context *open_context(const struct settings *s, char error[TLS_ERROR_MAX])
{
    const struct tls_server_config server = {
        .chain_cert = s->cert,
        .key = s->key,
        .key_format = TLS_KEY_PEM,
        .ca_cert = s->ca,
        .verify = s->ca ? TLS_VERIFY_REQUIRE : TLS_VERIFY_NONE,
        .min_version = TLS_VERSION_1_2,
    };
    const struct tls_client_config client = {
        .ca_cert = s->ca, .chain_cert = s->cert, .key = s->key};

    return s->listen ? tls_server_open(&server, error) : tls_client_open(&client, error);
}

int security_open(struct settings *s)
{
    struct security *security = calloc(1, sizeof(*security));
    char error[TLS_ERROR_MAX] = "no memory";

    if (!security)
        return ucping_fail(s, "--tls: %s", error);
    security->context = open_context(s, error);
    security->keys = security->context ? tls_key_cache_open() : NULL;
    security->resumes = s->tls_resume;
    security->first.bytes = security->first.count = 1;
    load_histogram_clear(&security->first.latency);
    load_histogram_clear(&security->latency);
    s->security = security;
    return security->keys ? 0 : ucping_fail(s, "--tls: %s", error);
}

void security_close(struct security *security)
{
    if (security->earlier)
        tls_session_close(security->earlier);
    if (security->keys)
        tls_key_cache_close(security->keys);
    if (security->context)
        tls_context_close(security->context);
    free(security);
}

struct tls_key_cache *security_keys(const struct security *security)
{
    return security->resumes ? NULL : security->keys;
}

void security_count(struct security *security, const struct tls_session *tls, uint64_t ns)
{
    if (security->resumes)
        return;
    security->handshakes++;
    security->resumed += tls_session_is_resumed(tls);
    security->own_records += tls_session_seals(tls);
    load_histogram_count(&security->latency, ns);
}

void security_release(struct security *security, struct tls_session *tls)
{
    if (security->resumes && tls_session_is_established(tls)) {
        security->earlier = tls;
        security->resumes = false;
        return;
    }
    tls_session_close(tls);
}

void security_tick(struct security *security, uint64_t now_us)
{
    (void)tls_context_tick(security->context, now_us);
}
