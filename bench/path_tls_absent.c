/* SPDX-License-Identifier: BSD-3-Clause */
/* For builds without OpenSSL; see path_tls.h. */
#include "path_tls.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

struct tls_context *path_tls_server(void)
{
    fprintf(stderr, "bench: this build has no TLS\n");
    exit(PATH_TLS_ABSENT);
}

struct tls_context *path_tls_client(void)
{
    U_ASSERT(!"a server");
    return NULL;
}

void path_tls_begin(struct net_stack_worker *server)
{
    U_ASSERT(!"a server");
}

unsigned path_tls_handshakes(const struct net_stack_worker *server)
{
    U_ASSERT(!"a server");
    return 0;
}
