/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams to the service manager; see notify.h. */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX 128

static int socket_fd = -1;

int notify_open(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len;

    if (socket_fd >= 0)
        close(socket_fd);
    socket_fd = -1;
    if (!name || name[0] == '\0')
        return 0;
    if (strlen(name) >= sizeof(addr.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(addr.sun_path, name, strlen(name));
    if (name[0] == '@')
        addr.sun_path[0] = '\0';
    len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_fd >= 0 && connect(socket_fd, (const struct sockaddr *)&addr, len) == 0)
        return 0;
    if (socket_fd >= 0) {
        int saved = errno;

        close(socket_fd);
        socket_fd = -1;
        errno = saved;
    }
    return -1;
}

bool notify_is_open(void)
{
    return socket_fd >= 0;
}

static int send_text(const char *message)
{
    if (socket_fd < 0)
        return 0;
    return write(socket_fd, message, strlen(message)) < 0 ? -1 : 0;
}

int notify_ready(void)
{
    return send_text("READY=1");
}

int notify_alive(void)
{
    return send_text("WATCHDOG=1");
}

int notify_stopping(void)
{
    return send_text("STOPPING=1");
}

int notify_store(const char *name, int memory_fd)
{
    char text[MESSAGE_MAX];
    struct iovec part = {text, 0};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};

    if (socket_fd < 0) {
        errno = ENOTCONN;
        return -1;
    }
    part.iov_len = (size_t)snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &memory_fd, sizeof(int));
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

int notify_forget(const char *name)
{
    char text[MESSAGE_MAX];

    snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    return send_text(text);
}

uint64_t notify_watchdog_us(void)
{
    const char *pid = getenv("WATCHDOG_PID");
    const char *us = getenv("WATCHDOG_USEC");

    if (!us || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return strtoull(us, NULL, 10);
}
