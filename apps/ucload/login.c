/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication of connections; see login.h. */
#include "login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mcproto/mcproto.h"
#include "secure.h"

#define SASL_AUTH 0x21
#define MECHANISM "PLAIN"
#define HEADER_BYTES 24
#define STORED "STORED\r\n"

static int read_line(char line[LOGIN_NAME_MAX + 2], const char *path, char error[LOGIN_ERROR_MAX])
{
    FILE *file = fopen(path, "re");
    char *read = NULL;

    if (file)
        read = fgets(line, LOGIN_NAME_MAX + 2, file);
    if (!read)
        snprintf(error, LOGIN_ERROR_MAX, "cannot be read: %s", file ? "empty" : strerror(errno));
    if (file)
        fclose(file);
    return read ? 0 : -1;
}

/* set auth 0 0 LENGTH, then "USER PASSWORD" */
static void make_text(struct login *login, const char *user, const char *password)
{
    login->len = (uint32_t)snprintf((char *)login->request, LOGIN_REQUEST_MAX,
                                    "set auth 0 0 %zu\r\n%s %s\r\n",
                                    strlen(user) + 1 + strlen(password), user, password);
}

/* RFC 4616: an empty authorization identity, user and password, each after a NUL. */
static void make_binary(struct login *login, const char *user, const char *password)
{
    const uint32_t mechanism = sizeof(MECHANISM) - 1;
    uint32_t names = (uint32_t)(2 + strlen(user) + strlen(password));
    uint8_t *at = login->request + HEADER_BYTES;

    login->request[0] = MC_BINARY_MAGIC_REQUEST;
    login->request[1] = SASL_AUTH;
    login->request[3] = (uint8_t)mechanism;
    login->request[10] = (uint8_t)((mechanism + names) >> 8);
    login->request[11] = (uint8_t)(mechanism + names);
    memcpy(at, MECHANISM, mechanism);
    memcpy(at + mechanism + 1, user, strlen(user));
    memcpy(at + mechanism + 2 + strlen(user), password, strlen(password));
    login->len = HEADER_BYTES + mechanism + names;
}

int login_open(struct login *login, const char *path, bool binary, char error[LOGIN_ERROR_MAX])
{
    char line[LOGIN_NAME_MAX + 2], *colon;
    size_t len;

    *login = (struct login){.binary = binary};
    if (read_line(line, path, error) < 0)
        return -1;
    len = strcspn(line, "\r\n");
    colon = memchr(line, ':', len);
    if (!colon || colon == line || len > LOGIN_NAME_MAX) {
        snprintf(error, LOGIN_ERROR_MAX, "the first line is not USER:PASSWORD of at most %d bytes",
                 LOGIN_NAME_MAX);
        return -1;
    }
    line[len] = *colon = '\0';
    (binary ? make_binary : make_text)(login, line, colon + 1);
    return 0;
}

int login_begin(struct client *client, struct conn *conn)
{
    const struct login *login = &client->plan->login;

    conn->is_logging_in = true;
    conn->login_len = 0;
    return (conn->tls ? secure_send : client->ops->put)(client, conn, login->request, login->len);
}

static int refused(struct client *client, const struct conn *conn)
{
    const char *reply = client->plan->login.binary ? "an error status of SASL PLAIN"
                                                   : (const char *)conn->login_reply;

    return client_fail(client, "%s refuses user and password of --auth: %.*s",
                       client->plan->server_text, (int)strcspn(reply, "\r\n"), reply);
}

/* The length of the reply, as far as it is known. */
static uint32_t reply_bytes(const struct login *login, const struct conn *conn)
{
    const uint8_t *reply = conn->login_reply;

    if (!login->binary)
        return sizeof(STORED) - 1;
    if (conn->login_len < HEADER_BYTES)
        return HEADER_BYTES;
    return HEADER_BYTES + ((uint32_t)reply[10] << 8 | reply[11]);
}

int login_replied(struct client *client, struct conn *conn, const uint8_t *data, uint32_t len)
{
    const struct login *login = &client->plan->login;
    const uint8_t *reply = conn->login_reply;

    for (; len > 0 && conn->login_len < reply_bytes(login, conn); data++, len--) {
        if (conn->login_len < LOGIN_REPLY_MAX - 1)
            conn->login_reply[conn->login_len] = *data;
        conn->login_len++;
    }
    if (login->binary && conn->login_len >= HEADER_BYTES &&
        (reply[0] != MC_BINARY_MAGIC_REPLY || reply[1] != SASL_AUTH || reply[6] || reply[7]))
        return refused(client, conn);
    if (!login->binary && memcmp(reply, STORED, conn->login_len) != 0)
        return refused(client, conn);
    if (conn->login_len < reply_bytes(login, conn))
        return 0;
    if (len > 0)
        return client_fail(client, "%s sends more than a reply to the login",
                           client->plan->server_text);
    return client_opened(client, conn);
}
